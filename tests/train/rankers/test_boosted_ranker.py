"""The boosted ranker: LightGBM's trees as tensors say what LightGBM says, and its absence is told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import MissingExtraError
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.rankers import boosted_ranker as boosted
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer, planted
from tests.train.rankers.requests import rehearsed, share_right

library = pytest.importorskip("lightgbm")
QUICK = BoostedRankerTrainer(epochs=20, learning_rate=0.2, patience=5, leaves=7, n_negatives=12)


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    return rehearsed(world)


def test_tensors_say_what_the_library_says():
    random = np.random.default_rng(0)
    told = random.normal(size=(400, 6)).astype(np.float32)
    told[:, 5] = random.integers(0, 4, 400)
    wanted = (told[:, 0] + 0.3 * told[:, 5] > 1).astype(int)
    data = library.Dataset(told, wanted, group=[20] * 20)
    quiet = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = library.train(quiet, data, 15)
    trees = planted(booster.dump_model()["tree_info"])
    new = np.concatenate(
        [told, random.normal(size=(200, 6)).astype(np.float32), np.zeros((1, 6), np.float32)]
    )
    assert len(trees.roots) == 15
    assert np.allclose(trees(torch.from_numpy(new)).numpy(), booster.predict(new), rtol=1e-6, atol=1e-6)
    single = planted(library.train(quiet | {"min_data_in_leaf": 1000}, data, 2).dump_model()["tree_info"])
    assert single.depth == 0


@pytest.mark.parametrize("mode", ["harmonised", "original", "mixed"])
def test_it_learns_that_the_nominators_rank_is_right(context, mode):
    heard = {}
    noted = replace(context, note=lambda name, facts: heard.update({name: facts}))
    stage = replace(QUICK, mode=mode).fit({"name": "rank"}, noted)
    assert share_right(stage, context) > 0.9
    assert heard["rank"]["mode"] == mode
    check_stage(stage, len(context.catalog), ("n",))


def test_it_tells_probabilities_on_request(context):
    stage = replace(QUICK, calibrate="isotonic").fit({"name": "rank"}, context)
    one = context.rounds[4]
    assert float(stage.score(one.query, one.found).mean()) == pytest.approx(5 / 30, abs=0.05)


def test_the_same_seed_grows_the_same_trees(context):
    one, two = (QUICK.fit({}, context).tensors() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_without_requests_to_stop_by_all_trees_are_grown(context):
    stage = replace(QUICK, epochs=7).fit({}, replace(context, rounds=context.rounds[:3]))
    assert len(stage.trees.roots) == 7


def test_a_renewed_ranker_knows_the_counts_of_all_events(world, context):
    stage = replace(QUICK, epochs=2).fit({"name": "rank"}, context)
    renewed = QUICK.renew(stage, TrainContext(world.events, world.catalog))
    assert renewed.sheet.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.trees is stage.trees


def test_without_the_library_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(boosted, "import_module", missing)
    with pytest.raises(
        MissingExtraError, match=r"'lightgbm'; install it with: pip install 'shortlist\[boosted\]'"
    ):
        boosted.lightgbm()
    with pytest.raises(MissingExtraError):
        BoostedRankerTrainer()  # before anything has learned

    def other(name):
        raise ModuleNotFoundError("No module named 'narwhals'", name="narwhals")

    monkeypatch.setattr(boosted, "import_module", other)
    with pytest.raises(ModuleNotFoundError, match="narwhals"):
        boosted.lightgbm()
