from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
import torch

from shortlist.data import Catalog, Vocabulary, half_history
from shortlist.errors import ConfigError
from shortlist.models.collaborative.ease import EASE
from shortlist.train.context import TrainContext
from shortlist.train.loop import trainer as loop_trainer
from shortlist.train.loop.lazy_adamw import use_sparse_gradients
from shortlist.train.loop.trainer import LoopTrainer
from shortlist.train.models import sequence
from shortlist.train.registry import make_trainer
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


SMALL = {"width": 8, "max_history": 8, "heads": 1, "blocks": 1, "batch_size": 32, "device": "cpu"}


def context(split, **changes: Any) -> TrainContext:
    catalog = Catalog.bare(Vocabulary.of([f"i{row}" for row in range(split.train.n_items)]))
    return TrainContext(split.train, catalog, **changes)


def test_fit_continues_from_the_weights_of_a_stage_of_the_same_name():
    split, trainer = half_history(chains(), seed=0, held_out=0.2), make_trainer("sasrec", epochs=2, **SMALL)
    first = trainer.fit({"name": "s"}, context(split))
    still = trainer.with_settings(learning_rate=1e-9, weight_decay=0.0)
    again = still.fit({"name": "s"}, context(split, warm={"s": first}, seed=7))
    assert torch.allclose(again.model.items.weight, first.model.items.weight, atol=1e-5)
    other = still.fit({"name": "s"}, context(split, warm={"t": first}, seed=7))
    assert not torch.allclose(other.model.items.weight, first.model.items.weight, atol=1e-2)


def test_weights_of_another_size_are_not_continued():
    split, trainer = half_history(chains(), seed=0, held_out=0.2), make_trainer("sasrec", epochs=2, **SMALL)
    first = trainer.fit({"name": "s"}, context(split))
    wide = make_trainer("sasrec", epochs=2, **{**SMALL, "width": 16})
    scratch = wide.fit({"name": "s"}, context(split))
    again = wide.fit({"name": "s"}, context(split, warm={"s": first}))
    assert torch.equal(scratch.model.items.weight, again.model.items.weight)


@pytest.mark.parametrize(("best", "epochs"), [(1, 1), (5, 1), (6, 2), (20, 4)])
def test_without_validation_a_continued_training_runs_a_fifth_of_the_best_epochs(best, epochs):
    split, notes = half_history(chains(), seed=0, held_out=0.2), {}
    trainer = make_trainer("sasrec", epochs=2, **SMALL)
    first = trainer.fit({"name": "s"}, context(split))
    given = context(split, warm={"s": first}, best_epochs={"s": best}, note=notes.__setitem__)
    trainer.fit({"name": "s"}, given)
    assert notes["s"].epochs == epochs
    trainer.fit({"name": "s"}, replace(given, warm={}))
    assert notes["s"].epochs == best


def test_checkpoint_of_a_training_from_scratch_is_not_read_by_one_that_continues(tmp_path):
    split, trainer = half_history(chains(), seed=0, held_out=0.2), make_trainer("sasrec", epochs=2, **SMALL)
    first = trainer.fit({"name": "s"}, context(split, checkpoint_dir=tmp_path))
    again = trainer.fit({"name": "s"}, context(split, checkpoint_dir=tmp_path, warm={"s": first}))
    assert not torch.equal(again.model.items.weight, first.model.items.weight)
    assert len(list(tmp_path.glob("sasrec-*"))) >= 2


def test_training_history_says_that_the_time_limit_stopped_it():
    split, notes = half_history(chains(), seed=0, held_out=0.2), {}
    given = context(split, valid=split.valid, note=notes.__setitem__)
    make_trainer("sasrec", epochs=3, minutes=1e-9, **SMALL).fit({"name": "s"}, given)
    assert notes["s"].stopped == "stopped by the time limit"
    assert (notes["s"].epochs, notes["s"].converged) == (1, False)
    make_trainer("sasrec", epochs=3, **SMALL).fit({"name": "s"}, given)
    assert (notes["s"].epochs, notes["s"].stopped) == (3, "")


def test_large_tables_are_trained_with_sparse_gradients(monkeypatch):
    monkeypatch.setattr(loop_trainer, "use_sparse_gradients", partial(use_sparse_gradients, rows=4))
    monkeypatch.setattr(sequence, "LAZY_ROWS", 4)
    learning = {"loss": "sampled", "negatives": 30, "epochs": 40, "learning_rate": 1e-2, "dropout": 0.0}
    model = make_trainer("sasrec", **{**SMALL, "width": 16}, **learning).learn(chains())
    assert model.items.sparse
    with torch.no_grad():
        scores = model.scores(torch.tensor([[0, 1, 2], [-1, 5, 6], [17, 18, 19]]))
    assert scores.argmax(1).tolist() == [3, 7, 10]
