import pytest

from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.sampler_trend import METHODS, QUICK, bounds_sampler, points_of
from tests.lab.experiments.shapes import check_shape, ids, points


@pytest.fixture(scope="module")
def told(cache_file):
    return bounds_sampler(None, "quick", [0], cache_file=cache_file)


def test_the_result_has_its_shape(told):
    check_shape(told, "bounds-sampler")
    assert {
        "KL(Q || P+) orders gaps on world",
        "gaps keep to KL(Q || P+) on world",
        "KL(Q || P) rises while dtr-t learns on world",
    } <= ids(told)


def test_gaps_keep_to_the_mended_divergence_and_that_to_the_papers(told):
    (cache,) = (one for one in told["claims"] if one["id"] == "gaps keep to KL(Q || P+) on world")
    assert cache["holds"]
    for method in METHODS:
        for sampler in METHODS.values():
            who, said = f"{method}, {sampler} draws on world", "sampled levels together"
            plus, paper = (points(told, who, f"{name}, {said}") for name in ("KL(Q || P+)", "KL(Q || P)"))
            assert list(plus) == list(QUICK)
            assert all(plus[step] <= paper[step] for step in QUICK)


def test_both_learners_begin_alike(told):
    first = {
        one["method"]: one["values"]
        for one in told["rows"]
        if one.get("x") == 0 and one["metric"].startswith("loss")
    }
    assert len(set(map(tuple, first.values()))) == 1


def test_levels_that_are_taken_whole_are_left_out(ground):
    found = points_of(Trial(ground, 0), "dtr-u")
    assert {one["size"] > ground.few(70) + 1 for one in found} == {True}


def test_kept_points_are_not_measured_again(told, cache_file, monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.sampler_trend.TreeTraining",
        lambda *_: pytest.fail("taught again"),
    )
    assert bounds_sampler(None, "quick", [0], cache_file=cache_file)["rows"] == told["rows"]
