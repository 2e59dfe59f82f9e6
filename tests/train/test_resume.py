"""Every trainer with epochs continues a training that was interrupted, to the same stage bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from shortlist.data import Catalog, Vocabulary, half_history
from shortlist.models.registry import MODELS
from shortlist.pipeline.about import TrainingHistory
from shortlist.train.context import TrainContext
from shortlist.train.loop import checkpoint
from shortlist.train.registry import TRAINERS, make_trainer, train_settings
from tests.train.logs import chains
from tests.train.rankers.requests import context_of

SMALL = {"width": 8, "batch_size": 64, "epochs": 3, "device": "cpu", "dropout": 0.2, "max_history": 5}
OWN: dict[str, dict[str, Any]] = {
    "jtr": {"blocks": 1, "branch": 2, "leaf": 5, "rounds": 2, "round_epochs": 2},
    "tree": {"method": "dtr-t-rl", "scorer": "linear", "windows": [2, 1, 1], "min_history": 2, "rounds": 2,
             "sasrec_width": 4, "negatives": 3},
    "din": {"windows": [2, 1, 1], "negatives": 5},
    "din-ranker": {"attention": [4], "layers": [8]},
}  # fmt: skip
WITH_EPOCHS = [
    name
    for name in (*MODELS, *TRAINERS)
    if "epochs" in {one.name for one in train_settings(name)} and name != "boosted-ranker"
]
"""LightGBM trains a boosted ranker in one call, which takes seconds."""


class Interruption:
    """A progress callback that raises KeyboardInterrupt at one report, or counts them all."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.reports = at, 0

    def __call__(self, task: str, done: int, total: int) -> None:
        self.reports += 1
        if self.reports == self.at:
            raise KeyboardInterrupt


@pytest.fixture
def context(world) -> Callable[[str], TrainContext]:
    def made(name: str) -> TrainContext:
        if name.endswith(("ranker", "scorer")):
            return context_of(world)
        split = half_history(chains(), seed=0, held_out=0.2)
        return TrainContext(split.train, Catalog.bare(Vocabulary.of(list(range(20)))), valid=split.valid)

    return made


def fitted(name: str, context: TrainContext) -> tuple[dict[str, torch.Tensor], dict[str, TrainingHistory]]:
    known = {one.name for one in train_settings(name)}
    settings = {key: value for key, value in (SMALL | OWN.get(name, {})).items() if key in known}
    histories: dict[str, TrainingHistory] = {}
    stage = make_trainer(name, **settings).fit({"name": "it"}, replace(context, note=histories.__setitem__))
    return stage.tensors(), histories


def test_these_types_have_epochs():
    assert set(WITH_EPOCHS) >= {
        "sasrec",
        "mf",
        "two-tower",
        "lightgcn",
        "tree",
        "jtr",
        "din-ranker",
        "mlp-ranker",
    }


@pytest.mark.parametrize("name", WITH_EPOCHS)
def test_interrupted_training_continues_to_the_same_stage(name, context, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr("shortlist.train.tree.trainer.CHECKPOINT_SECONDS", 0.0)
    whole = Interruption()
    expected, histories = fitted(name, replace(context(name), progress=whole))
    interrupted = replace(
        context(name), checkpoint_dir=tmp_path, progress=Interruption(at=whole.reports * 3 // 4)
    )
    with pytest.raises(KeyboardInterrupt):
        fitted(name, interrupted)
    rest = Interruption()
    resumed, later = fitted(name, replace(interrupted, progress=rest))
    assert rest.reports < whole.reports  # not from the beginning
    assert later == histories
    assert resumed.keys() == expected.keys()
    for part, tensor in expected.items():
        assert torch.equal(resumed[part], tensor), part
