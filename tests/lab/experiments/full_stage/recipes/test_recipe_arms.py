"""Recipes of the arms, and the claims about them."""

import pytest

from shortlist.lab.experiments.full_stage.recipes.measures import LIKED
from shortlist.lab.experiments.full_stage.recipes.recipe_arms import ARMS, recipe
from shortlist.lab.experiments.full_stage.recipes.recipe_claims import compared, method, recipe_claims
from shortlist.lab.experiments.full_stage.recipes.sizes import RECIPE_SIZES, SETUPS
from shortlist.pipeline import TYPES
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.registry import TRAINERS

STAGES = ("retrieval", "prerank", "rank", "rerank")


@pytest.mark.parametrize("size", RECIPE_SIZES.values(), ids=list(RECIPE_SIZES))
@pytest.mark.parametrize("arm", [one for one in ARMS.values() if one.trained], ids=lambda arm: arm.name)
def test_every_arm_is_a_recipe_with_the_capacities_of_the_set_up(arm, size):
    made = recipe(arm, size, size.tight, "cpu")
    work = PipelineTrainer.of(made, TYPES, TRAINERS)
    assert work.step_names[1:] == STAGES[1:]
    assert [step.k for step in work.parsed({}).stages[1:]] == list(size.tight[1:])
    assert [made.stages[name].train["objective"] for name in STAGES] == list(arm.objectives)


def test_arms_of_one_retrieval_differ_in_objectives_only():
    size = RECIPE_SIZES["small"]
    made = [recipe(ARMS[name], size, size.wide) for name in ("softmax", "lcron", "events only")]
    settings = [{name: {**one.train, "objective": ""} for name, one in each.stages.items()} for each in made]
    assert settings[0] == settings[1] == settings[2]
    assert len({each.expression for each in made}) == 1


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
@pytest.mark.parametrize("size", RECIPE_SIZES.values(), ids=list(RECIPE_SIZES))
def test_every_set_up_can_be_simulated(setup, size):
    assert setup.settings(size).requests == size.requests


def test_every_trained_arm_is_compared_with_events_only_and_softmax():
    pairs = {(high, low) for high, low, _ in compared()}
    assert {("softmax", "events only"), ("tree none", "events only"), ("lcron", "softmax")} <= pairs
    assert ("events only, round 2", "events only") in pairs
    named = {method(one.name, number) for one in ARMS.values() for number in range(one.rounds)}
    assert {name for pair in pairs for name in pair} <= named


def test_a_claim_holds_only_if_its_interval_is_above_0():
    seeds = range(3)
    methods = {
        "events only": {seed: {LIKED: 0.5 + 0.1 * seed} for seed in seeds},
        "softmax": {seed: {LIKED: 0.6 + 0.11 * seed} for seed in seeds},
        "lcron": {seed: {LIKED: 0.7 - 0.1 * seed} for seed in seeds},
    }
    holds = {one.id: one.holds for one in recipe_claims({"wide": methods})}
    assert holds == {
        "softmax > events only in liked per slot: wide": True,
        "lcron > events only in liked per slot: wide": False,
        "lcron > softmax in liked per slot: wide": False,
    }
