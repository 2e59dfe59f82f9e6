"""The quick profile of the recipes."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.full_stage.recipes import experiment
from shortlist.lab.experiments.full_stage.recipes.experiment import fsltr_recipes
from shortlist.lab.experiments.full_stage.recipes.measures import BEST, DRAWN, LIKED, LOST, SAME
from tests.lab.experiments.results import check_result, ids

SEEDS = (0, 1)
ONLY = ("tiny/tight/logging funnel/*", "tiny/tight/softmax/*", "tiny/tight/events and likes/0")


@pytest.fixture(scope="module")
def cache_file(tmp_path_factory):
    return tmp_path_factory.mktemp("recipes") / "cells.safetensors"


@pytest.fixture(scope="module")
def quick(cache_file):
    return fsltr_recipes(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)


def values(result, method):
    return {one.metric: one.values for one in result.rows if one.method == f"{method} on tight"}


def test_claims_are_about_arms_with_two_seeds(quick):
    check_result(quick, "fsltr-recipes")
    assert ids(quick) == {"softmax, round 2 > softmax in liked per slot: tight"}
    assert quick.skipped["tiny/wide/lcron/0"] == "not run"
    assert not [reason for reason in quick.skipped.values() if reason != "not run"]


def test_differences_are_those_of_softmax_from_the_others_over_seeds(quick):
    found = {(one.one, one.other): one for one in quick.differences}
    assert set(found) == {("softmax", "logging funnel"), ("softmax", "softmax, round 2")}
    first, second = (values(quick, name)[LIKED] for name in ("softmax", "softmax, round 2"))
    expected = sum(a - b for a, b in zip(first, second, strict=True)) / 2
    assert found["softmax", "softmax, round 2"].estimate == pytest.approx(expected)
    assert {one.users for one in quick.differences} == {0}


@pytest.mark.parametrize("method", ["logging funnel", "softmax", "softmax, round 2"])
def test_what_stages_lose_adds_up_to_the_best_minus_the_liked_items(quick, method):
    figures = values(quick, method)
    for seed in range(2):
        lost = [figures[name][seed] for name in LOST.values()]
        assert min(lost) >= 0
        assert sum(lost) == pytest.approx(figures[BEST][seed] - figures[LIKED][seed])


def test_one_slate_for_all_users_is_below_the_best_of_each(quick):
    one, other = (values(quick, name) for name in ("softmax", "logging funnel"))
    assert one[SAME] == pytest.approx(other[SAME])
    assert all(same < best for same, best in zip(one[SAME], one[BEST], strict=True))


def test_drawn_feedback_has_the_utility_as_its_mean(quick):
    """120 users and 6 slots: the standard error of a share is below .02."""
    figures = values(quick, "softmax")
    assert figures[DRAWN] == pytest.approx(figures[LIKED], abs=0.08)


def test_the_logging_funnel_which_knows_utilities_is_above_what_is_trained_from_it(quick):
    high, low = (values(quick, name)[LIKED] for name in ("logging funnel", "softmax"))
    assert all(one > other for one, other in zip(high, low, strict=True))


def test_finished_cells_are_not_run_again(quick, cache_file, monkeypatch):
    def refused(*_, **__):
        raise AssertionError

    monkeypatch.setattr(experiment, "run_recipe_cell", refused)
    again = fsltr_recipes(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)
    assert again.rows == quick.rows


@pytest.mark.parametrize("name", ["fsltr-recipes", "fsltr-recipes-small"])
def test_the_experiment_is_registered(name):
    with pytest.raises(ConfigError, match="quick or full"):
        EXPERIMENTS[name](None, "medium")
