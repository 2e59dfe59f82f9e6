"""A training that is started again fits only the stages that were not finished, and gives the same bundle."""

import sys
from collections import Counter

import pytest
import torch

from shortlist.artifact.store import load
from shortlist.grammar import leaves
from shortlist.pipeline import TYPES, parse_recipe
from shortlist.pipeline.plugins import load_plugins
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.train import train
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer

SMALL = """
pipeline = "towers % 40 >> seen >> rank % 20 >> diverse % 10"

[train]
requests = 100

[stages.towers]
type = "two-tower"

[stages.towers.train]
width = 8
hidden = 8
epochs = 2
instances = 1000

[stages.seen]
type = "seen"

[stages.rank]
type = "feature-ranker"

[stages.rank.train]
epochs = 2

[stages.diverse]
type = "diverse"
"""


class Log:
    """Counts the reports of every task, and interrupts one of them."""

    def __init__(self, interrupt: str = "") -> None:
        self.interrupt, self.reports = interrupt, Counter[str]()

    def __call__(self, task: str, done: int, total: int) -> None:
        self.reports[task] += 1
        if task == self.interrupt and done > total // 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def recipe():
    return parse_recipe(SMALL, "small.toml")


@pytest.fixture(scope="module")
def whole(world, recipe, tmp_path_factory):
    """The version of a bundle that was trained without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "bundle"
    train(recipe, world, folder)
    return load(folder).version


@pytest.mark.parametrize("task", ["out-of-fold: two-tower", "rank", "refit: rank"])
def test_training_that_was_interrupted_anywhere_gives_the_same_bundle(world, recipe, whole, tmp_path, task):
    with pytest.raises(KeyboardInterrupt):
        train(recipe, world, tmp_path / "out", checkpoint_dir=tmp_path / "saved", progress=Log(task))
    assert not (tmp_path / "out").exists()
    train(recipe, world, tmp_path / "out", checkpoint_dir=tmp_path / "saved")
    assert load(tmp_path / "out").version == whole


def test_stage_that_is_finished_is_not_fitted_again(world, recipe, tmp_path, monkeypatch):
    first = train(recipe, world, checkpoint_dir=tmp_path, refit=False)
    monkeypatch.setattr(FeatureRankerTrainer, "fit", lambda *_: pytest.fail("fitted again"))
    log = Log()
    again = train(recipe, world, checkpoint_dir=tmp_path, refit=False, progress=log)
    assert "two-tower" not in log.reports  # the trainer's own task: no step was trained
    assert again.about.training == first.about.training != {}
    for one, other in zip(first.pipeline.stages, again.pipeline.stages, strict=True):
        for name, tensor in one.tensors().items():
            assert torch.equal(other.tensors()[name], tensor)


def test_changed_stage_and_those_after_it_are_fitted_again(world, recipe, tmp_path):
    train(recipe, world, checkpoint_dir=tmp_path, refit=False)
    before = {one.name for one in tmp_path.glob("stage-*")}
    changed = parse_recipe(
        SMALL.replace("[stages.rank.train]", "[stages.rank.train]\ndropout = 0.5"), "small.toml"
    )
    train(changed, world, checkpoint_dir=tmp_path, refit=False)
    new = {one.name for one in tmp_path.glob("stage-*")} - before
    assert sorted(name.split("-")[1] for name in new) == ["diverse", "rank"]


def test_other_seed_fits_everything_again(world, recipe, tmp_path):
    train(recipe, world, checkpoint_dir=tmp_path, refit=False)
    count = len(list(tmp_path.glob("stage-*")))
    train(recipe, world, checkpoint_dir=tmp_path, refit=False, seed=1)
    assert len(list(tmp_path.glob("stage-*"))) == 2 * count


def test_changed_setting_of_a_ranker_starts_its_training_anew(world, recipe, tmp_path):
    train(recipe, world, checkpoint_dir=tmp_path, refit=False)
    changed = with_settings(recipe, {"stages.rank.nominators": []})
    made = train(changed, world, checkpoint_dir=tmp_path, refit=False)
    rank = next(one for one in leaves(made.pipeline) if one.title == "rank")
    assert rank.features.nominators == ()


PLUGIN = """
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.grammar import Scorer


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Scorer):
    value: Tensor

    @classmethod
    def fit(cls, settings, context):
        return cls(torch.tensor(1.0), **settings)

    def score(self, query, found):
        return self.value.expand(found.shape)
"""


def test_stage_of_changed_code_is_fitted_again(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def value(code: str) -> float:
        (tmp_path / "own_stage.py").write_text(code)
        load_plugins(["own_stage.py"])
        try:
            recipe = parse_recipe(
                'pipeline = "popular % 9 >> own"\n[stages.popular]\ntype = "popular"\n'
                '[stages.own]\ntype = "own_stage:Constant"\n'
            )
            made = train(recipe, world, checkpoint_dir=tmp_path / "saved", refit=False)
            return float(made.pipeline.stages[1].tensors()["value"])
        finally:
            del sys.modules["own_stage"], TYPES["own_stage:Constant"]

    assert value(PLUGIN) == value(PLUGIN) == 1.0
    assert value(PLUGIN.replace("1.0", "22.0")) == 22.0
