import pytest
from scipy.stats import spearmanr

from shortlist.lab.experiments.two_stage.bounds_trend import BRANCHES, bounds_trend, grouped, rank_correlation
from shortlist.lab.experiments.two_stage.trend_runs import Setting, settings_of
from tests.lab.experiments.shapes import check_shape, ids, points


@pytest.fixture(scope="module")
def told(cache_file):
    return bounds_trend(None, "quick", [0], cache_file=cache_file)


def test_the_result_has_its_shape_and_says_first_that_bounds_are_vacuous(told):
    check_shape(told, "bounds-trend")
    assert told["note"].startswith("All ")
    assert "vacuous" in told["note"]
    assert told["rows"][0]["metric"] == "gap of ramp"


def test_more_instances_have_smaller_gaps(told):
    few, all_ = (
        points(told, f"{who} on world", "gap of leaves") for who in ("linear, 5% of the users", "linear")
    )
    assert list(all_) == list(BRANCHES)
    assert all(few[branch] > all_[branch] for branch in BRANCHES)
    assert next(
        one for one in told["claims"] if one["id"] == "rigorous orders gaps of ramp over instances on world"
    )["holds"]


def test_leaves_of_linear_trees_have_the_same_gap_for_all_branches(told):
    for metric in ("gap of leaves", "gap of all leaves"):
        values = list(points(told, "linear on world", metric).values())
        assert values == pytest.approx([values[0]] * len(values), abs=1e-5)
    falls = next(
        one for one in told["claims"] if one["id"] == "linear: the gap of leaves falls with branches on world"
    )
    assert not falls["holds"]


def test_claims_say_what_would_refute_the_story_of_bounds(told):
    assert {
        "all bounds are vacuous on world",
        "paper does not order gaps of equal nodes over branches on world",
        "paper orders gaps of ramp better than instances alone on world",
        "attention: the gap of leaves falls with branches on world",
        "linear: what more branches gain is search on world",
    } <= ids(told)


def test_bounds_and_gaps_never_share_a_metric(told):
    metrics = {one["metric"] for one in told["rows"]}
    assert {"ratio of paper", "gap of ramp", "test error, all leaves"} <= metrics
    assert points(told, "linear on world", "ratio of rigorous")[2] == 1
    assert told["bounds"]["reference"] == "linear, 2 branches"
    assert told["bounds"]["beside"]["linear, 2 branches"]["error"]["low"] is not None


def test_kept_runs_are_not_taught_again(told, cache_file, monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.trend_runs.teach_linear", lambda *_: pytest.fail("taught again")
    )
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.trend_runs.TreeTraining", lambda *_: pytest.fail("taught again")
    )
    assert bounds_trend(None, "quick", [0], cache_file=cache_file)["rows"] == told["rows"]


def test_some_runs_may_be_made_for_others_to_take(cache_file):
    some = bounds_trend(
        None, "quick", [0], cache_file=cache_file, only=["linear, 8 branches", "attention, 8 branches"]
    )
    assert some["claims"] == []
    assert {one["method"] for one in some["rows"]} == {"linear on world", "attention on world"}


def test_rank_correlation_is_spearmans():
    a, b = [3.0, 1.0, 2.0, 5.0, 5.0], [1.0, 2.0, 2.5, 7.0, 6.0]
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation([1.0, 2.0, 3.0], [1.0, 1.0 + 1e-9, 1.0]) is None
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None


def test_groups_differ_in_one_thing_alone():
    groups = grouped({one: [] for one in settings_of(quick=False)})
    assert [len(part) for part in groups["branches"]] == [5, 5, 5]
    assert [len(part) for part in groups["instances"]] == [3] * 5
    assert len(groups["all"][0]) == 23
    assert [len(groups[name][0]) for name in ("width", "limit", "attention, branches")] == [5, 5, 5]
    assert Setting() in groups["width"][0]
    assert Setting() in groups["limit"][0]


def test_users_of_several_seeds_are_not_pooled_silently(told, cache_file):
    one = bounds_trend(None, "quick", [0, 0], cache_file=cache_file)  # the same kept answers twice
    for result, count, taken in ((told, 1, False), (one, 2, True)):
        note = next(
            claim["note"]
            for claim in result["claims"]
            if claim["id"] == "linear: the gap of ramp falls with branches on world"
        )
        assert f"of {count} seeds" in note
        assert ("users of all seeds together" in note) == taken
