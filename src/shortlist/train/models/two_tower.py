"""Two towers, taught to foretell what a user meets next."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Windows, sliding
from shortlist.data.membership import is_in
from shortlist.index import search
from shortlist.models.sequence.two_tower import TowerConfig, TwoTower
from shortlist.nominate import Nearest
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import course
from shortlist.train.loop.loop import Loop, shuffled
from shortlist.train.loop.losses import sampled_softmax_loss, softmax_loss


@dataclass(frozen=True)
class TowerTrainer:
    """Softmax over the catalogue, drawn negatives when it is large; the label is one of the next `ahead` events.

    An epoch shows at most `instances` windows, a fresh draw each time. It stops early when recall@20 on the cases
    to choose by no longer rises.
    """

    width: int = 64
    hidden: int = 128
    max_history: int = 50
    dropout: float = 0.2
    ahead: int = 10
    min_history: int = 2
    epochs: int = 10
    batch_size: int = 512
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    patience: int = 2
    instances: int = 120_000
    negatives: int = 2048  # drawn when the catalogue has more than `full` items
    full: int = 20_000

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Nearest:
        return Nearest(self.towers(context, str(settings.get("name", "two-tower"))), **settings)

    def towers(self, context: TrainContext, what: str) -> TwoTower:
        """Trained towers."""
        torch.manual_seed(context.seed)
        config = TowerConfig(
            context.events.n_items, len(context.catalog.categories), self.width, self.hidden, self.max_history
        )
        towers = TwoTower(config, context.categories, self.dropout)
        windows = sliding(context.events, self.max_history + 1, self.min_history)
        if not len(windows):
            return (
                towers.eval()
            )  # nothing to learn from: silent users stay silent, others get an untaught answer
        steps = -(-min(len(windows), self.instances) // self.batch_size)
        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        judged = loop.run(
            towers,
            self._batches(towers, windows, context),
            steps,
            what,
            context.progress,
            _judge(towers, context),
        )
        context.note(what, course(judged, self.epochs, self.patience))
        return towers

    def _batches(
        self, towers: TwoTower, windows: Windows, context: TrainContext
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((context.seed, epoch))
            count = min(len(windows), self.instances)
            chosen = generator.choice(len(windows), count, replace=False) if count < len(windows) else None
            for rows in shuffled(count, self.batch_size, generator):
                at = rows if chosen is None else chosen[rows]
                yield lambda at=at: self._loss(towers, windows, at, generator)  # type: ignore[misc]

        return batches

    def _loss(
        self, towers: TwoTower, windows: Windows, rows: NDArray[np.int64], generator: np.random.Generator
    ) -> Tensor:
        history = torch.from_numpy(windows.histories(rows).astype(np.int64))
        target = torch.from_numpy(self._targets(windows, rows, generator))
        if towers.config.n_items <= self.full:
            return softmax_loss(towers(history), target)
        users = towers.users(history) * towers.temperature.exp()
        drawn = torch.from_numpy(generator.integers(0, towers.config.n_items, self.negatives))
        negatives = users @ towers.items(drawn).T  # [B, M]
        negatives = negatives.masked_fill(drawn[None, :] == target[:, None], -torch.inf)
        # The draws stand for all items but the target, each expected so often among them.
        expected = math.log(self.negatives / max(towers.config.n_items - 1, 1))
        return sampled_softmax_loss((users * towers.items(target)).sum(1), negatives - expected).mean()

    def _targets(
        self, windows: Windows, rows: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """One of the next `ahead` events of the same user, the nearer ones as likely as the later."""
        ends = windows.ends[rows].astype(np.int64)
        last = windows.events.starts[windows.events.users[ends].astype(np.int64) + 1] - 1
        reach = np.minimum(last - ends, self.ahead - 1)
        chosen = ends + np.floor(generator.random(len(ends)) * (reach + 1)).astype(np.int64)
        targets: NDArray[np.int64] = windows.events.items[chosen].astype(np.int64)
        return targets


def _judge(towers: TwoTower, context: TrainContext, most: int = 1000) -> Callable[[], float] | None:
    """Recall@20 without what was seen, on up to `most` cases."""
    if context.valid is None or not len(context.valid):
        return None
    chosen = np.random.default_rng(context.seed).permutation(len(context.valid))[:most]
    cases = context.valid.take(chosen)
    query, truth = cases.query(width=towers.config.max_history), cases.relevant()

    @torch.no_grad()
    def judge() -> float:
        items, _ = search(towers.items(), towers.users(query.history), 20 + query.history.shape[1])
        fresh = ~is_in(items, query.history)
        first = fresh & (fresh.cumsum(1) <= 20)
        hits = (is_in(items, truth) & first).sum(1)
        return float((hits / (truth >= 0).sum(1).clamp(min=1)).mean())

    return judge
