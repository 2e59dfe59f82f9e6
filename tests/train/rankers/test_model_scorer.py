"""The model scorer shares the model of a nominator."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.pipeline import parse_recipe
from shortlist.train import train

RECIPE = """
name = "scored"
pipeline = "popular % 40 + ease % 40 >> seen >> prerank % 20"

[stages.popular]
type = "popular"

[stages.ease]
type = "ease"

[stages.seen]
type = "seen"

[stages.prerank]
type = "model-scorer"

[stages.prerank.train]
start = "{start}"
"""


def test_scorer_ends_with_the_model_trained_on_all_events(world):
    trained = train(parse_recipe(RECIPE.format(start="ease"), "scored.toml"), world)
    stages = {stage.title: stage for stage in leaves(trained.pipeline)}
    assert torch.equal(stages["prerank"].model.weights, stages["ease"].model.weights)


@pytest.mark.parametrize("start", ["popular", "nobody", ""])
def test_start_without_a_model_is_refused_with_the_nominators_that_have_one(world, start):
    with pytest.raises(ConfigError, match=r"start must name a nominator with a model.*has ease"):
        train(parse_recipe(RECIPE.format(start=start), "scored.toml"), world)
