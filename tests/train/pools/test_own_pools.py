"""Two nominators that learn from their own pools: trained, saved, served, refreshed and trained again."""

import json

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.nominate.pools import by_popularity_stripe
from shortlist.pipeline import Request, load_recommender, parse_recipe
from shortlist.train.bundle import train
from shortlist.train.preparation.checks import check_before_training
from shortlist.train.preparation.pools_file import write_pools
from shortlist.train.renewal.refresh import refresh
from tests.train.renewal.test_refresh import log_of

RECIPE = """
name = "pools"
pipeline = "covisit % 30 + factors % 30 >> seen % 10"
[stages.covisit]
type = "co-visit"
[stages.covisit.train]
examples = "own_pool"
pools = "{path}"
[stages.factors]
type = "mf"
[stages.factors.train]
examples = "own_pool"
pools = "{path}"
epochs = 2
width = 8
[stages.seen]
type = "seen"
"""


def few(world):
    return world.events.users < 300


@pytest.fixture(scope="module")
def place(world, tmp_path_factory):
    """A folder with pools of the items of the world by their ids."""
    folder = tmp_path_factory.mktemp("own")
    order = np.argsort(-world.events.popularity, kind="stable")
    pools = by_popularity_stripe(order, 2)
    write_pools(folder / "pools.jsonl", pools, ("covisit", "factors"), world.items)
    return folder


@pytest.fixture(scope="module")
def bundle(world, place):
    early = log_of(world, few(world) & (world.events.times < np.quantile(world.events.times, 0.8)))
    train(parse_recipe(RECIPE.format(path=place / "pools.jsonl"), "pools.toml"), early, place / "bundle")
    return place / "bundle"


def test_nominators_know_the_items_of_their_pools_only(world, bundle):
    made = load_recommender(bundle)
    stages = {stage.title: stage for stage in leaves(made.pipeline)}
    order = np.argsort(-world.events.popularity, kind="stable")
    ids = [world.items.ids_of(np.flatnonzero(one)) for one in by_popularity_stripe(order, 2).matrix]
    own, other = (torch.from_numpy(made.catalog.vocabulary.rows(one)) for one in ids)
    neighbours = stages["covisit"].neighbour
    assert (neighbours[other[other >= 0]] < 0).all()  # an item of another pool has no neighbours
    known = neighbours[own[own >= 0]]
    assert torch.isin(known[known >= 0], own).all()


def test_bundle_serves_is_refreshed_and_trained_again(world, bundle, place):
    made = load_recommender(bundle)
    user = made.users.id(0)
    assert made.recommend(Request(user)).items.shape == (1, 10)
    grown = log_of(world, few(world))
    fresh = refresh(bundle, grown, place / "fresh").bundle
    assert fresh.about.refresh.stages == ("covisit",)
    again = refresh(bundle, grown, place / "again", retrain=True)
    assert again.comparison.requests > 0
    assert again.bundle.recipe.stages["factors"].train["examples"] == "own_pool"


def test_file_that_is_gone_is_refused_before_training(world, place):
    recipe = parse_recipe(RECIPE.format(path=place / "gone.jsonl"), "pools.toml")
    with pytest.raises(ConfigError, match=r"found no file .*gone.jsonl; write a line for each nominator"):
        train(recipe, world)


IN_POOL = """
pipeline = "popular % 20 + own % 10 >> seen"
[stages.popular]
type = "popular"
[stages.own]
type = "in-pool"
by = "popular"
pools = "{path}"
[stages.seen]
type = "seen"
"""


def test_pool_of_a_stage_is_checked_before_training(world, tmp_path):
    path = tmp_path / "own.jsonl"
    recipe = parse_recipe(IN_POOL.format(path=path), "own.toml")
    with pytest.raises(ConfigError, match=r"own.toml: \[stages.own\]: pools: expected a file or a stage"):
        check_before_training(recipe, world, world.split())
    items = world.items.ids_of(np.arange(5))
    path.write_text(json.dumps({"nominator": "own", "items": [*items, "gone"]}) + "\n", "utf-8")
    warnings = check_before_training(recipe, world, world.split())
    assert any(one.startswith("own: 1 items of its pool in") for one in warnings)
    numbered = parse_recipe(IN_POOL.format(path=path).replace("[stages.seen]", "number = 1\n[stages.seen]"))
    with pytest.raises(ConfigError, match="leave number out"):
        check_before_training(numbered, world, world.split())
