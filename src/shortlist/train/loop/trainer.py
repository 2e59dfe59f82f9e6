"""Trainers that learn epoch by epoch: the way from events to a model that all of them go."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from shortlist.data import HeldOut, Interactions
from shortlist.progress import Progress, silent
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.ranges import check_ranges
from shortlist.train.loop.validation import judge_of, parsed
from shortlist.train.models.trainer import ModelTrainer, Watch, unwatched


@dataclass(frozen=True)
class LoopTrainer(ModelTrainer):
    """Learns in the flat loop until what the cases to choose by are judged by no longer rises.

    What differs between trainers is the model, how an epoch shows the events, and what a batch of them costs.
    """

    title: ClassVar[str]

    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    patience: int = 5
    negatives: int = 256
    alpha: float = (
        0.5  # negatives are drawn by popularity to this power: 0 all alike, 1 as often as they were met
    )
    early_stop_metric: str = "recall@20"
    validation_cases: int = 1000  # the most cases to judge by
    device: str = "auto"

    def __post_init__(self) -> None:
        parsed(self.early_stop_metric)

    @abstractmethod
    def begin(self, events: Interactions, device: torch.device) -> Any:
        """A fresh model, on the device."""

    @abstractmethod
    def _batches(self, model: Any, events: Interactions, seed: int, device: torch.device) -> Batches:
        """Epoch -> losses to compute, one per step."""

    @abstractmethod
    def _steps(self, events: Interactions) -> int:
        """The most batches an epoch may have."""

    def check(self, events: Interactions) -> None:
        """Refuse what these events cannot be learned with."""

    def settle(self, model: Any, events: Interactions) -> None:
        """Let the model make ready to answer, before it is judged and in the end."""

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> Any:
        check_ranges(vars(self))
        self.check(events)
        device = device_of(self.device)
        torch.manual_seed(seed)
        model = self.begin(events, device)
        if not len(events):
            return model.eval()  # nothing to learn from
        judge = self._judge(model, events, judge_of(model, valid, seed, self.early_stop_metric, self.validation_cases), watch)
        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        batches = self._batches(model, events, seed, device)
        model.judged = loop.run(model, batches, self._steps(events), self.title, progress, judge)
        self.settle(model, events)
        return model

    def _judge(
        self, model: Any, events: Interactions, judge: Callable[[], float] | None, watch: Watch
    ) -> Callable[[], float] | None:
        """A judge of a model that has made ready, heard by somebody."""
        if judge is None:
            return None

        def told() -> float:
            self.settle(model, events)
            value = judge()
            watch(value)
            return value

        return told
