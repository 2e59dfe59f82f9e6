"""Models that foretell one event from a window before it, taught on windows drawn from all histories."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.model import Model
from shortlist.train.loop.negatives import Proposal
from shortlist.train.loop.trainer import LoopTrainer
from shortlist.train.models.sequence import UNKNOWN


@dataclass(frozen=True)
class WindowTrainer(LoopTrainer):
    """An epoch shows at most `instances` events, a fresh draw each time, every one with the `max_history` before it."""

    max_history: int = 69
    epochs: int = 40
    batch_size: int = 512
    instances: int = 200_000

    @abstractmethod
    def model(self, n_items: int) -> Any:
        """A fresh model."""

    @abstractmethod
    def loss_of(self, model: Any, history: Tensor, wanted: Tensor, proposal: Proposal) -> Tensor:
        """The mean loss of windows [B, K], -1 = padding, each before an event [B], -1 = none."""

    def begin(self, events: Interactions, device: torch.device) -> Any:
        return self.model(events.n_items).to(device)

    def _steps(self, events: Interactions) -> int:
        return -(-min(len(events), self.instances) // self.batch_size)

    def _batches(
        self, model: Model, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)  # [E]
        first = torch.from_numpy(events.starts[events.users].astype(np.int64)).to(
            device
        )  # [E] of the same user
        proposal = Proposal.of(events.popularity, self.alpha, device)
        back = torch.arange(-min(self.max_history, int(events.lengths.max())), 0, device=device)
        held = torch.zeros(self.batch_size, dtype=torch.int64, device=device)  # events to foretell, -1 = none

        def loss(at: Tensor) -> Tensor:
            return self.loss_of(model, *_windows(items, first, at, back), proposal)

        def steady() -> Tensor:
            return loss(held)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            count = min(len(events), self.instances)
            drawn = generator.choice(len(events), count, replace=False)
            for part in torch.split(torch.from_numpy(drawn).to(device), self.batch_size):
                if device.type == "cuda":  # one function on the same tensors: it can be recorded
                    held.fill_(UNKNOWN)[: len(part)] = part
                    yield steady
                else:
                    yield lambda part=part: loss(part)  # type: ignore[misc]

        return batches


def _windows(items: Tensor, first: Tensor, at: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """What stands before events [B, K], padding first, and the events themselves [B]; all -1 where `at` is -1."""
    there = at >= 0
    known = at.clamp(min=0)
    before = known[:, None] + back
    inside = (before >= first[known][:, None]) & there[:, None]
    return torch.where(inside, items[before.clamp(min=0)], UNKNOWN), torch.where(there, items[known], UNKNOWN)
