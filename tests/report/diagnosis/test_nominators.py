import re
from dataclasses import replace

import pytest

from shortlist.diagnose.diagnosis import NominatorReport
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.nominators import nominators
from tests.diagnose.example import COVERAGE, NOMINATION, NOMINATORS, between, full_diagnosis, value
from tests.report.diagnosis.test_parts import text


def shown(**changes):
    return text(nominators(full_diagnosis(**changes)))


def rows(part):
    """The cells of every row of a table, without markup."""
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in part.split("<tr>")[1:]]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells]


def test_nominators_are_needed_harmful_or_without_effect():
    without = {"a": between(-0.05), "b": between(0.05), "c": between(0.0)}
    reports = {name: NominatorReport(1, 0, one) for name, one in without.items()}
    shown = text(nominators(full_diagnosis(nominators=reports)))
    places = [shown.index(word) for word in ("needed</td>", "better without it", "no significant effect")]
    assert places == sorted(places)


def test_sentence_says_what_each_costs_and_brings():
    page = shown()
    assert (
        "&#x27;popular&#x27; costs 4.0 ms and brings 0.3 points of recall that nobody else brings [0.1, 0.5]."
        in page
    )
    assert "&#x27;covisit&#x27; costs 4.0 ms and brings 60.0 points" in page


def test_every_measure_has_a_column_and_its_interval():
    table = next(part for part in shown().split("<table>") if "leave-one-out" in part)
    head, popular, covisit = rows(table)
    expected = ["nominator", "slots", "candidates", "ms", "alone", "Shapley", "leave-one-out", "refilled"]
    assert head == [*expected, "points per ms"]
    assert popular[:5] == ["popular", "40", "40", "4.00", "10.0 [9.0, 11.0]"]
    assert popular[6:] == ["0.3 [0.1, 0.5]", "0.0 [-0.2, 0.2]", "0.07"]
    assert covisit[1] == "200"


def test_recall_of_the_pool_and_duplicates_are_named():
    assert (
        "Together they return 240 items per request, 230 of them different, and find 70.0 [69.0, 71.0]"
        in shown()
    )


def test_slates_and_overlap_have_a_table():
    page = shown()
    assert "60.0% <br>" not in page
    assert "1.20" in page
    assert "25%</span>" in page
    assert "5%</span>" in page
    assert page.count("<svg") == 2


def test_split_shows_limits_candidates_time_and_both_gains():
    table = next(part for part in shown().split("<table>") if "gain of slates" in part)
    assert rows(table) == [
        ["slots", "popular", "covisit", "candidates", "ms", "gain of the pool", "gain of slates"],
        ["now", "40", "200", "230", "8.0", "", ""],
        ["same candidates", "5", "220", "231", "7.5", "+2.0 [+1.0, +3.0]", "+1.5 [+0.5, +2.5]"],
        ["same slots", "5", "235", "231", "7.5", "+5.0 [+4.0, +6.0]", "-0.2 [-1.2, +0.8]"],
    ]


def test_limits_of_segments_are_shown():
    page = shown()
    assert "new (20 events or fewer)" in page
    table = next(part for part in page.split("<table>") if "<th>users" in part and "210" in part)
    assert rows(table)[1] == ["new (20 events or fewer)", "20", "210", "+2.0 [+1.0, +3.0]"]


def test_limit_of_latency_is_named():
    within = replace(NOMINATION, split=replace(NOMINATION.split, budget_ms=30.0))
    assert "Requests may take 30 ms." in shown(nomination=within)


def test_what_was_not_measured_says_why():
    bare = replace(NOMINATION, split=NotMeasured("there are too few users"), segments=())
    assert "Not measured: there are too few users." in shown(nomination=bare)
    assert "gain of slates" not in shown(nomination=bare)
    assert "By history length" not in shown(nomination=bare)


def test_items_of_no_nominator_are_an_alarm():
    assert "Alarm: no nominator nominated 90 of 900 items (10.0%) for any of 400 requests" in shown()
    assert "Alarm" not in shown(coverage=replace(COVERAGE, never_nominated=0))


def test_shapley_values_of_slates_have_a_column_if_they_were_measured():
    assert "Shapley of slates" not in shown()
    measured = {
        name: replace(one, returned_shapley=between(0.07)) for name, one in NOMINATION.nominators.items()
    }
    assert "7.0<br>" in shown(nomination=replace(NOMINATION, nominators=measured))


@pytest.mark.parametrize("known", [True, False])
def test_single_nominator_without_intervals_has_no_overlap(known):
    one = value(0.5, 0.5, 0.5, 0.5)
    if not known:
        empty = Estimate(None)
        reveal = replace(
            one.reveal, share=empty, first=empty, split=empty, alone=empty, relevant=empty, efficiency=None
        )
        one = replace(one, cost=None, reveal=reveal, found=replace(one.found, leave_one_out=Estimate(0.5)))
    alone = replace(
        NOMINATION, nominators={"popular": one}, segments=(), split=NotMeasured("there is one nominator")
    )
    page = shown(nomination=alone, nominators={"popular": NOMINATORS["popular"]})
    assert "Overlap" not in page
    assert "None" not in page
    assert "brings 50.0 points of recall that nobody else brings" in page


def test_diagnosis_without_the_measurement_has_the_first_table_only():
    page = shown(nomination=None)
    assert page.count("<table>") == 1
    assert "recall without it" in page
