from dataclasses import replace

from shortlist.diagnose.diagnosis import NominatorReport
from shortlist.diagnose.findings.nominators import nominator_findings
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.metrics.estimate import Estimate
from tests.diagnose.example import NOMINATION, NOMINATORS, between, diagnosis, split, value


def findings(nomination=NOMINATION, **changes):
    return list(nominator_findings(diagnosis(nomination=nomination, **changes)))


def with_values(**values):
    return replace(NOMINATION, nominators=values, split=NotMeasured("no"), same_slots=NotMeasured("no"))


def test_least_needed_nominator_is_the_one_that_the_others_make_up_for():
    first, _ = findings()
    assert first.stage == "popular"
    assert first.what == (
        "'popular' costs 4.0 ms and brings 0.3 points of recall that nobody else brings [0.1, 0.5]."
    )
    assert "Of 2 nominators it is needed least: with the others in its places" in first.why
    assert (
        "saves 4.0 ms per request. Slates without it, as trained and not filled up: -0.1 points" in first.knob
    )
    assert not first.advised
    assert first.gain is None


def test_plain_leave_one_out_does_not_decide():
    found = with_values(a=value(0.5, 0.3, 0.2, 0.01), b=value(0.5, 0.3, 0.1, 0.05))
    assert findings(found)[0].stage == "a"
    bare = {
        name: replace(one, found=replace(one.found, refilled=None)) for name, one in found.nominators.items()
    }
    assert findings(with_values(**bare))[0].stage == "b"


def test_nothing_is_said_of_a_number_whose_interval_reaches_0():
    assert findings(with_values(a=value(0.5, 0.3, 0.001, 0.0), b=value(0.5, 0.3, 0.002, 0.0))) == []
    few = value(0.5, 0.3, 0.1, 0.0)
    few = replace(few, found=replace(few.found, leave_one_out=Estimate(0.1)))
    assert findings(with_values(a=few, b=few)) == []


def test_nominator_that_others_do_not_replace_or_that_is_used_is_kept():
    needed = with_values(a=value(0.5, 0.3, 0.2, 0.1), b=value(0.5, 0.3, 0.3, 0.2))
    assert findings(needed)[0].knob == "Keep it: the others do not make up for it."
    used = findings(dependents={"popular": ("rank",)})[0]
    assert used.knob == "Keep it: it is used by 'rank'."


def test_nominator_whose_slates_are_missed_is_not_advised_away():
    lower = {"popular": NominatorReport(300, 10, between(-0.03)), "covisit": NOMINATORS["covisit"]}
    knob = findings(nominators=lower)[0].knob
    assert knob.startswith("Slates without it, as trained and not filled up, lose: -3.0 points [-4.0, -2.0].")
    assert "Train again without it" in knob


def test_single_nominator_has_no_findings():
    assert findings(with_values(a=value(0.5, 0.5, 0.5, 0.5))) == []
    assert findings(None) == []


def test_better_split_is_advised_if_slates_gain_too():
    _, found = findings()
    assert found.stage == "pool"
    assert "gains +2.0 points [+1.0, +3.0] of pool recall and +1.5 points" in found.what
    assert found.why == "Limits: popular 40 -> 5, covisit 200 -> 220."
    assert found.advised
    assert found.gain == between(0.015)


def test_split_whose_gain_later_stages_lose_is_reported_but_not_advised():
    _, found = findings(replace(NOMINATION, split=split(0.02, -0.001)))
    assert not found.advised
    assert "Later stages, as trained, do not return more" in found.why
    assert "Train the ranker again with these limits before you use them." in found.knob


def test_split_within_a_latency_names_it():
    within = replace(NOMINATION, split=replace(NOMINATION.split, budget_ms=30.0))
    assert findings(within)[1].what.startswith("Another split over the nominators within 30 ms gains")


def test_split_without_a_gain_is_not_reported():
    same = split(0.02, 0.02, popular=40, covisit=200)
    for one in (split(0.005, 0.02), same, NotMeasured("there is one nominator")):
        assert len(findings(replace(NOMINATION, split=one))) == 1
