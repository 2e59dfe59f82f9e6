"""Models of who met what, taught on pairs of a user and an item against items the user did not meet."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Cases, Interactions
from shortlist.progress import Progress, silent
from shortlist.represent.model import VectorModel
from shortlist.train.device import device_of
from shortlist.train.judge import judge_of, parsed
from shortlist.train.loop import Loop
from shortlist.train.model import ModelTrainer, Watch, unwatched
from shortlist.train.negatives import Proposal
from shortlist.train.ranges import check_ranges
from shortlist.train.sequence import watched

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
class PairTrainer(ModelTrainer):
    """An epoch shows every event once, in batches of `batch`."""

    title: ClassVar[str]

    width: int = 64
    epochs: int = 100
    batch: int = 4096
    rate: float = 1e-3
    decay: float = 1e-4
    patience: int = 5
    negatives: int = 1
    alpha: float = 0.0  # 0 draws all items alike, 1 as often as they were met
    judged_by: str = "recall@20"
    cases: int = 1000  # the most cases to judge by
    device: str = "auto"

    @abstractmethod
    def begin(self, events: Interactions, device: torch.device) -> Any:
        """A fresh model, on the device."""

    @abstractmethod
    def loss_of(self, model: Any, users: Tensor, items: Tensor, pairs: Pairs) -> Tensor:
        """The mean loss of events, as users [B] and items [B]."""

    @abstractmethod
    def settle(self, model: Any, events: Interactions) -> None:
        """Let the model make ready to answer."""

    def learn(
        self,
        events: Interactions,
        valid: Cases | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> VectorModel:
        check_ranges(vars(self))
        parsed(self.judged_by)
        device = device_of(self.device)
        torch.manual_seed(seed)
        model: VectorModel = self.begin(events, device)
        if not len(events):
            return model.eval()  # nothing to learn from
        judge = watched(judge_of(model, valid, seed, self.judged_by, self.cases), watch)
        loop = Loop(self.epochs, self.rate, self.decay, self.patience)
        steps = -(-len(events) // self.batch)
        batches = self._batches(model, events, seed, device)
        model.judged = loop.run(
            model, batches, steps, self.title, progress, self._settled(model, events, judge)
        )
        self.settle(model, events)
        return model

    def _settled(
        self, model: VectorModel, events: Interactions, judge: Callable[[], float] | None
    ) -> Callable[[], float] | None:
        """A judge of a model that has made ready."""
        if judge is None:
            return None

        def told() -> float:
            self.settle(model, events)
            return judge()

        return told

    def _batches(
        self, model: VectorModel, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        pairs = Pairs.of(events, self.alpha, device)
        size = min(self.batch, len(events))
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
