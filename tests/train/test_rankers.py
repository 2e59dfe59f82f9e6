"""Every ranker type trained from a recipe, saved and loaded: the loaded pipeline gives the same slates."""

import pytest
import torch

from shortlist.pipeline import load_recommender, run, shipped_recipe
from shortlist.pipeline.recipe import parse_recipe
from shortlist.train import train

HEAD = """
name = "ranked"
pipeline = "popular % 20 + covisit % 30 >> seen >> rank % 10"

[stages.popular]
type = "popular"

[stages.covisit]
type = "co-visit"

[stages.seen]
type = "seen"
"""

RANKERS = {
    "din-ranker": "width = 8\nattention = [4]\nhidden = [8]\nmax_history = 8\nwindows = [5, 3]\ndevice = 'cpu'\n",
    "feature-ranker": "hidden = [8]\n",
    "two-tower-scorer": "width = 4\n",
    "mlp-ranker": "width = 4\nhidden = [8]\n",
    "boosted-ranker": "leaves = 4\n",
    "blend-ranker": "leaves = 4\nhidden = [8]\ntrees = 3\n",
}


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("calibrate", ["none", "platt", "isotonic"])
def test_ranker_is_the_same_when_loaded_from_a_bundle(world, tmp_path, kind, calibrate):
    if kind == "boosted-ranker":
        pytest.importorskip("lightgbm")
    how = (
        f'epochs = 2\nn_negatives = 6\npositives_per_request = 2\ncalibrate = "{calibrate}"\n{RANKERS[kind]}'
    )
    recipe = parse_recipe(
        f'{HEAD}\n[stages.rank]\ntype = "{kind}"\n\n[stages.rank.train]\n{how}', "ranked.toml"
    )
    trained = train(recipe, world, tmp_path / "bundle", seed=3)
    loaded = load_recommender(tmp_path / "bundle")
    query = world.split().test.query(width=40)
    one, two = run(trained.pipeline, query), run(loaded.pipeline, query)
    two.trace.check()
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)
    assert loaded.pipeline.stages[-1].inner.probabilities == (calibrate != "none")
    assert trained.about.training["rank"].mode == "harmonised"


def test_shipped_recipe_ranks_by_probabilities(world, tmp_path):
    recipe = shipped_recipe("harmonised")
    assert recipe.stages["rank"].type == "mlp-ranker"
    assert recipe.stages["rank"].train["mode"] == "harmonised"
    trained = train(recipe, world, tmp_path / "bundle")
    slate = run(trained.pipeline, world.split().test.query(width=40))
    assert bool(((slate.scores > 0) & (slate.scores < 1))[slate.candidates.valid].all())
