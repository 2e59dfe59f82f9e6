"""Models of who met what, taught on pairs of a user and an item against items the user did not meet."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.model import VectorModel
from shortlist.train.loop.negatives import Proposal
from shortlist.train.loop.trainer import LoopTrainer

REDRAWS = 3  # times a drawn item that the user did meet is drawn anew


@dataclass(frozen=True, eq=False)
class Pairs:
    """Events as pairs, and a way to draw items a user did not meet."""

    users: Tensor  # [E]
    items: Tensor  # [E]
    keys: Tensor  # [distinct pairs] user * n_items + item, sorted
    n_items: int
    proposal: Proposal

    @classmethod
    def of(cls, events: Interactions, alpha: float, device: torch.device) -> "Pairs":
        """All events, on a device."""
        users, items = (
            torch.from_numpy(one.astype(np.int64)).to(device) for one in (events.users, events.items)
        )
        proposal = Proposal.of(events.popularity, alpha, device)
        return cls(users, items, torch.unique(users * events.n_items + items), events.n_items, proposal)

    def unmet(self, users: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """`count` items for each of the users [B, count], and where they are really unmet; hits are drawn anew."""
        shape = (len(users), count)
        drawn = self.proposal.draw(shape)
        for _ in range(REDRAWS):
            drawn = torch.where(self.met(users, drawn), self.proposal.draw(shape), drawn)
        return drawn, ~self.met(users, drawn)

    def met(self, users: Tensor, items: Tensor) -> Tensor:
        """Whether each user [B] met each of the user's items [B, M]."""
        wanted = users[:, None] * self.n_items + items
        at = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return self.keys[at] == wanted


@dataclass(frozen=True)
class PairTrainer(LoopTrainer):
    """An epoch shows every event once, in batches of `batch_size`."""

    width: int = 64
    epochs: int = 100
    batch_size: int = 4096
    negatives: int = 1
    alpha: float = 0.0

    @abstractmethod
    def loss_of(self, model: Any, users: Tensor, items: Tensor, pairs: Pairs) -> Tensor:
        """The mean loss of events, as users [B] and items [B]."""

    def _steps(self, events: Interactions) -> int:
        return -(-len(events) // self.batch_size)

    def _batches(
        self, model: VectorModel, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        pairs = Pairs.of(events, self.alpha, device)
        size = min(self.batch_size, len(events))
        held = torch.zeros(size, dtype=torch.int64, device=device)

        def steady() -> Tensor:
            return self.loss_of(model, pairs.users[held], pairs.items[held], pairs)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            order = np.random.default_rng((seed, epoch)).permutation(len(events))
            short = -len(order) % size  # the last batch is filled up from the beginning
            filled = torch.from_numpy(np.concatenate([order, order[:short]])).to(device)
            for part in torch.split(filled, size):
                held.copy_(part)
                yield steady

        return batches
