import pytest
from scipy.stats import spearmanr

from shortlist.lab.experiments.two_stage.bounds_trend import BRANCHES, bounds_trend, grouped, rank_correlation
from shortlist.lab.experiments.two_stage.trend_runs import TreeSetting, settings_of
from tests.lab.experiments.results import check_result, ids, points


@pytest.fixture(scope="module")
def result(cache_file):
    return bounds_trend(None, "quick", [0], cache_file=cache_file)


def test_the_note_begins_with_vacuous_bounds(result):
    check_result(result, "bounds-trend")
    assert result.note.startswith("All ")
    assert "vacuous" in result.note
    assert result.rows[0].metric == "gap of ramp"


def test_more_instances_have_smaller_gaps(result):
    few, everyone = (
        points(result, f"{method} on world", "gap of leaves")
        for method in ("linear, 5% of the users", "linear")
    )
    assert list(everyone) == list(BRANCHES)
    assert all(few[branch] > everyone[branch] for branch in BRANCHES)
    assert next(
        one for one in result.claims if one.id == "rigorous orders gaps of ramp over instances on world"
    ).holds


def test_leaves_of_linear_trees_have_the_same_gap_for_all_branches(result):
    for metric in ("gap of leaves", "gap of all leaves"):
        values = list(points(result, "linear on world", metric).values())
        assert values == pytest.approx([values[0]] * len(values), abs=1e-5)
    falls = next(
        one for one in result.claims if one.id == "linear: the gap of leaves falls with branches on world"
    )
    assert not falls.holds


def test_claims_include_those_that_would_refute_the_bounds(result):
    assert {
        "all bounds are vacuous on world",
        "paper does not order gaps of equal nodes over branches on world",
        "paper orders gaps of ramp better than instances alone on world",
        "attention: the gap of leaves falls with branches on world",
        "linear: what more branches gain is search on world",
    } <= ids(result)


def test_bounds_and_gaps_never_share_a_metric(result):
    metrics = {one.metric for one in result.rows}
    assert {"ratio of paper", "gap of ramp", "test error, all leaves"} <= metrics
    assert points(result, "linear on world", "ratio of rigorous")[2] == 1
    assert result.bounds["reference"] == "linear, 2 branches"
    assert result.bounds["measured"]["linear, 2 branches"]["error"]["low"] is not None


def test_cached_runs_are_not_trained_again(result, cache_file, monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.trend_runs.train_linear", lambda *_: pytest.fail("trained again")
    )
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.trend_runs.TreeTraining", lambda *_: pytest.fail("trained again")
    )
    assert bounds_trend(None, "quick", [0], cache_file=cache_file).rows == result.rows


def test_some_configurations_can_be_run_alone_without_claims(cache_file):
    some = bounds_trend(
        None, "quick", [0], cache_file=cache_file, only=["linear, 8 branches", "attention, 8 branches"]
    )
    assert some.claims == ()
    assert {one.method for one in some.rows} == {"linear on world", "attention on world"}


def test_rank_correlation_is_spearmans():
    a, b = [3.0, 1.0, 2.0, 5.0, 5.0], [1.0, 2.0, 2.5, 7.0, 6.0]
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation([1.0, 2.0, 3.0], [1.0, 1.0 + 1e-9, 1.0]) is None
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None


def test_groups_differ_in_one_setting():
    groups = grouped({one: [] for one in settings_of(quick=False)})
    assert [len(part) for part in groups["branches"]] == [5, 5, 5]
    assert [len(part) for part in groups["instances"]] == [3] * 5
    assert len(groups["all"][0]) == 23
    assert [len(groups[name][0]) for name in ("width", "limit", "attention, branches")] == [5, 5, 5]
    assert TreeSetting() in groups["width"][0]
    assert TreeSetting() in groups["limit"][0]


def test_users_of_several_seeds_are_not_pooled_silently(result, cache_file):
    one = bounds_trend(None, "quick", [0, 0], cache_file=cache_file)  # the same cached answers twice
    for found, count, pooled in ((result, 1, False), (one, 2, True)):
        note = next(
            claim.note
            for claim in found.claims
            if claim.id == "linear: the gap of ramp falls with branches on world"
        )
        assert f"of {count} seeds" in note
        assert ("users of all seeds together" in note) == pooled
