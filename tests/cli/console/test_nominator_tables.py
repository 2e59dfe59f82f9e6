from dataclasses import replace
from io import StringIO

from shortlist.cli.console.nominator_tables import nomination_table, split_lines
from shortlist.cli.console.output import Console
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.metrics.estimate import Estimate
from tests.diagnose.example import COVERAGE, NOMINATION, between, full_diagnosis, split


def shown(found, width=80):
    written = StringIO()
    Console(width=width, file=written).print(nomination_table(found))
    return written.getvalue()


def lines(**changes):
    return list(split_lines(full_diagnosis(**changes)))


def test_table_fits_a_terminal_of_80_columns_and_cuts_no_number():
    text = shown(NOMINATION)
    assert "a pool recall of 70.0 [69.0, 71.0] points" in text
    row = next(line.split() for line in text.splitlines() if line.strip().startswith("popular"))
    assert row == [
        "popular",
        "40",
        "4.00",
        "10.0",
        "5.0",
        "0.3",
        "[0.1,",
        "0.5]",
        "0.0",
        "[-0.2,",
        "0.2]",
    ]


def test_missing_numbers_are_dashes():
    popular = NOMINATION.nominators["popular"]
    bare = replace(
        popular,
        cost=None,
        found=replace(popular.found, refilled=None, solo=Estimate(None)),
    )
    assert shown(replace(NOMINATION, nominators={"popular": bare})).count("–") == 3


def test_lines_name_both_splits_and_items_of_no_nominator():
    first, second, third = lines()
    assert first.startswith(
        "split with the same candidates: popular 40 -> 5, covisit 200 -> 220: +2.0 points"
    )
    assert second.startswith("split with the same slots: popular 40 -> 5, covisit 200 -> 235: +5.0 points")
    assert third == "nominated by no nominator: 90 of 900 items (10.0%)"


def test_split_that_was_not_learned_says_why_and_one_that_changes_nothing_says_so():
    missing = replace(NOMINATION, split=NotMeasured("there is one nominator"))
    quiet = replace(COVERAGE, never_nominated=0)
    assert lines(nomination=missing, coverage=quiet) == ["split over nominators: there is one nominator"]
    same = replace(NOMINATION, split=split(0.0, 0.0, popular=40, covisit=200))
    assert lines(nomination=same)[0] == "split with the same candidates: the limits as they are"


def test_shapley_values_of_slates_are_a_line():
    values = {
        name: replace(one, returned_shapley=between(0.07)) for name, one in NOMINATION.nominators.items()
    }
    found = lines(nomination=replace(NOMINATION, nominators=values))
    assert found[0] == (
        "Shapley values of the recall of slates, in points: popular 7.0 [6.0, 8.0], covisit 7.0 [6.0, 8.0]"
    )
    assert lines(nomination=None) == []
