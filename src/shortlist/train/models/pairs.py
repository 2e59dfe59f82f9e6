"""The trainer of collaborative models: pairs (user, item) against items the user did not interact with."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.model import VectorModel
from shortlist.settings import setting
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.loop.trainer import LoopTrainer
from shortlist.train.models.trainer import strengths_on

REDRAWS = 3  # times a sampled item that the user interacted with is sampled again


@dataclass(frozen=True, eq=False)
class Pairs:
    """Events as pairs, and a sampler of items that a user did not interact with."""

    users: Tensor  # [E]
    items: Tensor  # [E]
    keys: Tensor  # [distinct pairs] user * n_items + item, sorted
    n_items: int
    sampler: NegativeSampler
    weights: Tensor | None = None  # [E] strengths of events; None: all are equal

    @classmethod
    def of(cls, events: Interactions, alpha: float, device: torch.device) -> "Pairs":
        """All events, on a device."""
        users, items = (
            torch.from_numpy(column.astype(np.int64)).to(device) for column in (events.users, events.items)
        )
        sampler = NegativeSampler.of(events.popularity, alpha, device)
        keys = torch.unique(users * events.n_items + items)
        return cls(users, items, keys, events.n_items, sampler, strengths_on(events, device))

    def negatives(self, users: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """`count` sampled items for each user [B, count], and where they are true negatives [B, count]."""
        shape = (len(users), count)
        sampled = self.sampler.sample(shape)
        for _ in range(REDRAWS):
            sampled = torch.where(self.interacted(users, sampled), self.sampler.sample(shape), sampled)
        return sampled, ~self.interacted(users, sampled)

    def interacted(self, users: Tensor, items: Tensor) -> Tensor:
        """Whether each user [B] interacted with each of the items [B, M]."""
        key = users[:, None] * self.n_items + items
        at = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        return self.keys[at] == key


@dataclass(frozen=True)
class PairTrainer(LoopTrainer):
    """An epoch contains every event once, in batches of `batch_size`."""

    epochs: int = 100
    batch_size: int = 4096
    alpha: float = setting(
        0.0, "Negatives are sampled by popularity to this power; 0 is uniform.", least=0, most=1000
    )

    @abstractmethod
    def loss_of(
        self, model: Any, users: Tensor, items: Tensor, pairs: Pairs, weights: Tensor | None = None
    ) -> Tensor:
        """The mean loss of events, as users [B] and items [B]; `weights` [B] multiply their losses."""

    def _steps(self, events: Interactions) -> int:
        return -(-len(events) // self.batch_size)

    def _batches(
        self, model: VectorModel, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        pairs = Pairs.of(events, self.alpha, device)
        size = min(self.batch_size, len(events))
        batch = torch.zeros(size, dtype=torch.int64, device=device)

        def recorded() -> Tensor:
            weights = () if pairs.weights is None else (pairs.weights[batch],)
            return self.loss_of(model, pairs.users[batch], pairs.items[batch], pairs, *weights)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            order = np.random.default_rng((seed, epoch)).permutation(len(events))
            missing = -len(order) % size  # the last batch is filled up from the beginning
            filled = torch.from_numpy(np.concatenate([order, order[:missing]])).to(device)
            for part in torch.split(filled, size):
                batch.copy_(part)
                yield recorded

        return batches
