"""The trainer of models that predict one event from the history before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN, Interactions
from shortlist.models.model import Model
from shortlist.settings import setting
from shortlist.train.loop.trainer import LoopTrainer
from shortlist.train.models.sequence import check_softmax, softmax_where
from shortlist.train.models.trainer import may_be_target, strengths_on

LossOf = Callable[..., Tensor]
"""Histories [B, K], targets [B], and their weights [B] unless all are equal -> the mean loss."""


@dataclass(frozen=True)
class WindowTrainer(LoopTrainer):
    """Trains any `VectorModel` with a softmax over the whole catalogue: the history before an event predicts the event.

    An epoch contains at most `instances` random events, each with the `max_history` events before it.
    """

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True

    epochs: int = 40
    batch_size: int = 512
    instances: int = setting(200_000, "Largest number of training examples in an epoch.", least=1, most=1e12)
    ahead: int = setting(
        1,
        "The target is one of the next `ahead` events, at random; 0: chosen on validation.",
        least=0,
        most=10_000,
    )

    def check(self, events: Interactions) -> None:
        check_softmax(self.title, self.batch_size, events.n_items)

    def batch_values(self, events: Interactions) -> int:
        return self.batch_size * events.n_items

    def loss_function(self, model: Any, events: Interactions, device: torch.device) -> LossOf:
        """The mean loss of histories [B, K], -1 = padding, each before a target [B], -1 = none."""

        def loss_of(history: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
            with torch.autocast(history.device.type, torch.bfloat16, enabled=history.is_cuda):
                logits = model.users(history) @ model.vectors().T  # [B, N]
            return softmax_where(logits.float(), target, weights)

        return loss_of

    def _longest(self, events: Interactions) -> int:
        """Events of the longest history."""
        return min(int(self.config.max_history), int(events.lengths.max()))

    def _steps(self, events: Interactions) -> int:
        return -(-min(len(self._examples(events)), self.instances) // self.batch_size)

    def _examples(self, events: Interactions) -> NDArray[np.int64]:
        """The events whose target may be an example."""
        some = may_be_target(events, self.ahead)
        return np.arange(len(events)) if some is None else np.flatnonzero(some)

    def _batches(
        self, model: Model, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)  # [E]
        first = torch.from_numpy(events.starts[events.users].astype(np.int64)).to(
            device
        )  # [E] of the same user
        last = torch.from_numpy(events.starts[events.users.astype(np.int64) + 1] - 1).to(device)  # [E]
        loss_of, weights = self.loss_function(model, events, device), strengths_on(events, device)
        offsets = torch.arange(-self._longest(events), 0, device=device)
        targets = torch.zeros(self.batch_size, dtype=torch.int64, device=device)  # events, -1 = none

        def loss(at: Tensor) -> Tensor:
            event = target_events(at, last, self.ahead)
            own = () if weights is None else (weights[event.clamp(min=0)],)
            return loss_of(*_windows(items, first, at, event, offsets), *own)

        def recorded() -> Tensor:
            return loss(targets)

        examples = self._examples(events)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            count = min(len(examples), self.instances)
            sampled = examples[generator.choice(len(examples), count, replace=False)]
            for part in torch.split(torch.from_numpy(sampled).to(device), self.batch_size):
                if device.type == "cuda":  # one function on the same tensors can be recorded
                    targets.fill_(UNKNOWN)[: len(part)] = part
                    yield recorded
                else:
                    yield lambda part=part: loss(part)  # type: ignore[misc]

        return batches


def target_events(at: Tensor, last: Tensor, ahead: int) -> Tensor:
    """A random one of the `ahead` events from each event `at` on, of the same user [B]; -1 stays."""
    if ahead <= 1:
        return at
    left = (last[at.clamp(min=0)] - at + 1).clamp(1, ahead)
    offset = torch.randint(1 << 31, at.shape, device=at.device) % left
    return torch.where(at >= 0, at + offset, at)


def _windows(
    items: Tensor, first: Tensor, at: Tensor, target: Tensor, offsets: Tensor
) -> tuple[Tensor, Tensor]:
    """Histories before events [B, K], padding first, and the items of targets [B]; all -1 where `at` is -1."""
    valid = at >= 0
    event = at.clamp(min=0)
    before = event[:, None] + offsets
    inside = (before >= first[event][:, None]) & valid[:, None]
    history = torch.where(inside, items[before.clamp(min=0)], UNKNOWN)
    return history, torch.where(valid, items[target.clamp(min=0)], UNKNOWN)
