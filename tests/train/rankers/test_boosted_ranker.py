"""The boosted ranker: tensors score like LightGBM, and a missing LightGBM is reported."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import MissingExtraError
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.rankers import boosted_ranker as boosted
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer, trees_of
from tests.train.rankers.requests import context_of, share_right

library = pytest.importorskip("lightgbm")
QUICK = BoostedRankerTrainer(epochs=20, learning_rate=0.2, patience=5, leaves=7, n_negatives=12)


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    return context_of(world)


def test_trees_as_tensors_score_like_lightgbm():
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 6)).astype(np.float32)
    features[:, 5] = random.integers(0, 4, 400)
    targets = (features[:, 0] + 0.3 * features[:, 5] > 1).astype(int)
    data = library.Dataset(features, targets, group=[20] * 20)
    quiet = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = library.train(quiet, data, 15)
    trees = trees_of(booster.dump_model()["tree_info"])
    new = np.concatenate(
        [features, random.normal(size=(200, 6)).astype(np.float32), np.zeros((1, 6), np.float32)]
    )
    assert len(trees.roots) == 15
    assert np.allclose(trees(torch.from_numpy(new)).numpy(), booster.predict(new), rtol=1e-6, atol=1e-6)
    single = trees_of(library.train(quiet | {"min_data_in_leaf": 1000}, data, 2).dump_model()["tree_info"])
    assert single.depth == 0


@pytest.mark.parametrize("negatives", ["both", "all-candidates"])
@pytest.mark.parametrize("mode", ["harmonised", "original", "mixed"])
def test_ranker_learns_that_the_nominators_rank_is_right(context, mode, negatives):
    histories = {}
    noted = replace(context, note=histories.__setitem__)
    stage = replace(QUICK, mode=mode, negatives=negatives).fit({"name": "rank"}, noted)
    assert share_right(stage, context) > 0.9
    assert histories["rank"].mode == mode
    check_stage(stage, len(context.catalog), ("n",))


def test_calibrated_scores_are_probabilities(context):
    stage = replace(QUICK, calibrate="isotonic").fit({"name": "rank"}, context)
    one = context.batches[4]
    assert float(stage.score(one.query, one.found).mean()) == pytest.approx(5 / 30, abs=0.05)


def test_same_seed_gives_the_same_trees(context):
    one, two = (QUICK.fit({}, context).tensors() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_without_validation_requests_all_trees_are_kept(context):
    stage = replace(QUICK, epochs=7).fit({}, replace(context, batches=context.batches[:3]))
    assert len(stage.trees.roots) == 7


def test_renewed_ranker_has_the_counts_of_all_events(world, context):
    stage = replace(QUICK, epochs=2).fit({"name": "rank"}, context)
    renewed = QUICK.renew(stage, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.trees is stage.trees


def test_missing_lightgbm_is_reported_with_the_extra_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(boosted, "import_module", missing)
    with pytest.raises(
        MissingExtraError, match=r"'lightgbm'; install it with: pip install 'shortlist\[boosted\]'"
    ):
        boosted.lightgbm()
    with pytest.raises(MissingExtraError):
        BoostedRankerTrainer()  # before anything is trained

    def other(name):
        raise ModuleNotFoundError("No module named 'narwhals'", name="narwhals")

    monkeypatch.setattr(boosted, "import_module", other)
    with pytest.raises(ModuleNotFoundError, match="narwhals"):
        boosted.lightgbm()


def test_time_limit_ends_with_the_best_trees_so_far_and_the_history_says_so(context, monkeypatch):
    ticks = iter(range(10_000))
    monkeypatch.setattr(boosted.TimeLimit, "__init__", _with_clock(lambda: float(next(ticks))))
    stage, history = _fitted(replace(QUICK, minutes=4 / 60), context)
    assert history.epochs == 4
    assert history.stopped
    assert len(stage.trees.roots) == history.best_epoch <= 4
    _, unlimited = _fitted(QUICK, context)
    assert not unlimited.stopped


def _with_clock(clock):
    def init(self, minutes: float) -> None:
        self.minutes, self.clock, self.reached = minutes, clock, False

    return init


def _fitted(trainer, context):
    histories = {}
    stage = trainer.fit({"name": "rank"}, replace(context, note=histories.__setitem__))
    return stage, histories["rank"]
