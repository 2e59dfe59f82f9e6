from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from shortlist.data import half_history
from shortlist.errors import ConfigError
from shortlist.models.collaborative.ease import EASE
from shortlist.train.loop.trainer import LoopTrainer
from tests.train.logs import chains, nothing


@dataclass(frozen=True)
class CallTrainer(LoopTrainer):
    """A trainer that changes no weights and records the calls of its methods."""

    model: type[Any] = field(default=EASE, kw_only=True)
    epochs: int = 3
    device: str = "cpu"
    calls: list[str] = field(default_factory=list, compare=False)

    def begin(self, events: Any, catalog: Any) -> EASE:
        model = EASE(self.config_for(events))
        model.weights.requires_grad_(True)
        return model

    def check(self, events: Any) -> None:
        self.calls.append("check")

    def finish(self, model: Any, events: Any) -> None:
        self.calls.append("finish")

    def _steps(self, events: Any) -> int:
        return int(len(events) > 0)

    def _batches(self, model: Any, events: Any, seed: int, device: torch.device) -> Any:
        def batches(epoch: int) -> Iterator[Any]:
            self.calls.append(f"epoch {epoch}")
            yield lambda: 0.0 * model.weights.sum()

        return batches


def test_model_is_finished_before_each_validation_and_at_the_end_and_every_validation_is_reported():
    split = half_history(chains(), seed=0, held_out=0.2)
    trainer = CallTrainer()
    reported: list[float] = []
    model = trainer.learn(split.train, split.valid, on_validation=reported.append)
    epochs = [f"epoch {epoch}" for epoch in range(len(reported))]
    assert trainer.calls == ["check", *(call for epoch in epochs for call in (epoch, "finish")), "finish"]
    assert reported == list(model.validation) != []


def test_nothing_is_reported_without_validation_users():
    trainer = CallTrainer()
    reported: list[float] = []
    assert list(trainer.learn(chains(), on_validation=reported.append).validation) == reported == []
    assert trainer.calls == ["check", "epoch 0", "epoch 1", "epoch 2", "finish"]


def test_no_epoch_is_run_without_events():
    trainer = CallTrainer()
    assert not trainer.learn(nothing()).training
    assert trainer.calls == ["check"]


def test_invalid_settings_are_refused_when_the_trainer_is_made():
    with pytest.raises(ConfigError, match="ease: epochs must lie between"):
        CallTrainer(epochs=0)
    with pytest.raises(ConfigError, match="early_stop_metric must be"):
        CallTrainer(early_stop_metric="auc")
