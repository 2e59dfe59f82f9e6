"""The way that all trainers with epochs go: settled before every judgement and in the end, heard, the best kept."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch

from shortlist.data import half_history
from shortlist.errors import ConfigError
from shortlist.models.collaborative.ease import EASE, LinearConfig
from shortlist.train.loop.trainer import LoopTrainer
from tests.train.logs import chains, nothing


@dataclass(frozen=True)
class Told(LoopTrainer):
    """A trainer that learns nothing and tells what is done with it."""

    title: ClassVar[str] = "told"

    epochs: int = 3
    device: str = "cpu"
    done: list[str] = field(default_factory=list, compare=False)

    def begin(self, events: Any, device: torch.device) -> EASE:
        model = EASE(LinearConfig(events.n_items))
        model.weights.requires_grad_(True)
        return model

    def check(self, events: Any) -> None:
        self.done.append("checked")

    def settle(self, model: Any, events: Any) -> None:
        self.done.append("settled")

    def _steps(self, events: Any) -> int:
        return 1

    def _batches(self, model: Any, events: Any, seed: int, device: torch.device) -> Any:
        def batches(epoch: int) -> Iterator[Any]:
            self.done.append(f"epoch {epoch}")
            yield lambda: 0.0 * model.weights.sum()

        return batches


def test_a_model_is_settled_before_each_judgement_and_in_the_end_and_every_judgement_is_heard():
    split = half_history(chains(), seed=0, held_out=0.2)
    trainer = Told()
    heard: list[float] = []
    model = trainer.learn(split.train, split.valid, watch=heard.append)
    rounds = [f"epoch {epoch}" for epoch in range(len(heard))]
    assert trainer.done == ["checked", *(word for one in rounds for word in (one, "settled")), "settled"]
    assert heard == list(model.judged) != []


def test_nobody_is_heard_without_cases_to_judge_by():
    trainer = Told()
    heard: list[float] = []
    assert list(trainer.learn(chains(), watch=heard.append).judged) == heard == []
    assert trainer.done == ["checked", "epoch 0", "epoch 1", "epoch 2", "settled"]


def test_without_events_nothing_is_learned_and_settings_are_still_checked():
    trainer = Told()
    assert not trainer.learn(nothing()).training
    assert trainer.done == ["checked"]
    with pytest.raises(ConfigError, match="early_stop_metric must be"):
        Told(early_stop_metric="joy").learn(nothing())
    with pytest.raises(ConfigError, match="epochs must lie between"):
        Told(epochs=0).learn(nothing())
