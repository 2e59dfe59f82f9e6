"""Every ranker through a recipe, a bundle on disk and back: the same slates, the same scores to the last bit."""

import pytest
import torch

from shortlist.pipeline import load_recommender, run, shipped_recipe
from shortlist.pipeline.recipe import parse_recipe
from shortlist.progress import silent
from shortlist.train.bundle import train_bundle

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
    "din-ranker": "width = 8\nattention = [4]\nhidden = [8]\nmemory = 8\nwindows = [5, 3]\ndevice = 'cpu'\n",
    "mlp-ranker": "width = 4\nhidden = [8]\n",
    "boosted-ranker": "leaves = 4\n",
}


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("calibrate", ["none", "platt", "isotonic"])
def test_a_ranker_travels_in_a_bundle(world, tmp_path, kind, calibrate):
    if kind == "boosted-ranker":
        pytest.importorskip("lightgbm")
    how = f'epochs = 2\ndrawn = 6\nwants = 2\ncalibrate = "{calibrate}"\n{RANKERS[kind]}'
    recipe = parse_recipe(
        f'{HEAD}\n[stages.rank]\ntype = "{kind}"\n\n[stages.rank.train]\n{how}', "ranked.toml"
    )
    trained, _ = train_bundle(recipe, world, tmp_path / "bundle", 3, silent)
    loaded = load_recommender(tmp_path / "bundle")
    query = world.split().test.query(width=40)
    one, two = run(trained.pipeline, query), run(loaded.pipeline, query)
    two.trace.check()
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)
    assert loaded.pipeline.stages[-1].inner.probabilities == (calibrate != "none")
    assert trained.about["training"]["rank"]["mode"] == "harmonised"


def test_the_recipe_that_comes_along_ranks_by_probabilities(world, tmp_path):
    recipe = shipped_recipe("harmonised")
    assert recipe.stages["rank"].type == "mlp-ranker"
    assert recipe.stages["rank"].train["mode"] == "harmonised"
    trained, _ = train_bundle(recipe, world, tmp_path / "bundle", 0, silent)
    slate = run(trained.pipeline, world.split().test.query(width=40))
    assert bool(((slate.scores > 0) & (slate.scores < 1))[slate.candidates.valid].all())
