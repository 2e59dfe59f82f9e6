import pytest

from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.sampler_trend import METHODS, QUICK, bounds_sampler, points_of
from tests.lab.experiments.results import check_result, ids, points


@pytest.fixture(scope="module")
def result(cache_file):
    return bounds_sampler(None, "quick", [0], cache_file=cache_file)


def test_the_result_has_the_expected_claims(result):
    check_result(result, "bounds-sampler")
    assert {
        "KL(Q || P+) orders gaps on world",
        "gaps keep to KL(Q || P+) on world",
        "KL(Q || P) rises during training of dtr-t on world",
    } <= ids(result)


def test_gaps_stay_below_the_corrected_divergence_and_that_below_the_papers(result):
    (bounded,) = (one for one in result.claims if one.id == "gaps keep to KL(Q || P+) on world")
    assert bounded.holds
    for method in METHODS:
        for sampler in METHODS.values():
            system, levels = f"{method}, {sampler} negatives on world", "sampled levels together"
            plus, paper = (
                points(result, system, f"{name}, {levels}") for name in ("KL(Q || P+)", "KL(Q || P)")
            )
            assert list(plus) == list(QUICK)
            assert all(plus[step] <= paper[step] for step in QUICK)


def test_both_methods_start_with_the_same_loss(result):
    first = {one.method: one.values for one in result.rows if one.x == 0 and one.metric.startswith("loss")}
    assert len(set(map(tuple, first.values()))) == 1


def test_levels_used_in_full_are_left_out(data_setup):
    found = points_of(Trial(data_setup, 0), "dtr-u")
    assert {one["size"] > data_setup.negatives(70) + 1 for one in found} == {True}


def test_cached_points_are_not_measured_again(result, cache_file, monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.sampler_trend.TreeTraining",
        lambda *_: pytest.fail("trained again"),
    )
    assert bounds_sampler(None, "quick", [0], cache_file=cache_file).rows == result.rows
