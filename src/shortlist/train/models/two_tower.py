"""The trainer of two towers: softmax over the catalogue, with a random one of the next events as target."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import Catalog, HeldOut, Interactions, Windows, sliding
from shortlist.data.windows import gather
from shortlist.models.sequence.two_tower import TwoTower
from shortlist.settings import setting
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.loop import shuffled
from shortlist.train.loop.losses import sampled_softmax_loss, softmax_loss, weighted_mean
from shortlist.train.loop.validation import validation_metric
from shortlist.train.models.retrieval import RetrievalTrainer, ScoreInstances
from shortlist.train.models.trainer import may_be_target
from shortlist.train.objectives.instances import InstanceBatch


@dataclass(frozen=True)
class TwoTowerTrainer(RetrievalTrainer):
    """Softmax over all items, or over sampled negatives for large catalogues.

    An epoch contains at most `instances` random histories.
    """

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True

    model: type[Any] = field(default=TwoTower, kw_only=True)
    epochs: int = 10
    batch_size: int = 512
    learning_rate: float = 3e-3
    patience: int = 2
    ahead: int = setting(
        10,
        "The target is one of the next `ahead` events, at random; 0: chosen on validation.",
        least=0,
        most=10_000,
    )
    min_history: int = setting(2, "Fewest events before a target.", least=1, most=10_000)
    instances: int = setting(120_000, "Largest number of training examples in an epoch.", least=1, most=1e12)
    negatives: int = setting(
        2048, "Sampled negatives for catalogues of more than `full` items.", least=1, most=10_000_000
    )
    full: int = setting(
        20_000, "Largest catalogue for which the softmax is over all items.", least=0, most=1e12
    )

    def begin(self, events: Interactions, catalog: Catalog | None) -> TwoTower:
        if catalog is None:
            return TwoTower(self.config_for(events, n_categories=1))
        towers = TwoTower(self.config_for(events, n_categories=len(catalog.categories)))
        return towers.with_categories(torch.from_numpy(catalog.category_rows))

    def batch_values(self, events: Interactions) -> int:
        return self.batch_size * (events.n_items if events.n_items <= self.full else self.negatives)

    def _windows(self, events: Interactions) -> Windows:
        windows = sliding(events, self.config.max_history + 1, self.min_history)
        some = may_be_target(events, self.ahead)
        return windows if some is None else replace(windows, ends=windows.ends[some[windows.ends]])

    def _steps(self, events: Interactions) -> int:
        return -(-min(len(self._windows(events)), self.instances) // self.batch_size)

    def _metric(self, model: Any, valid: HeldOut | None, seed: int) -> Callable[[], float] | None:
        return validation_metric(
            model, valid, seed, self.early_stop_metric, self.validation_users, self.config.max_history
        )

    def _batches(
        self, model: TwoTower, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        windows = self._windows(events)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            count = min(len(windows), self.instances)
            chosen = generator.choice(len(windows), count, replace=False) if count < len(windows) else None
            for rows in shuffled(count, self.batch_size, generator):
                at = rows if chosen is None else chosen[rows]
                yield lambda at=at: self._loss(model, windows, at, generator)  # type: ignore[misc]

        return batches

    def _loss(
        self, model: TwoTower, windows: Windows, rows: NDArray[np.int64], generator: np.random.Generator
    ) -> Tensor:
        history = torch.from_numpy(windows.histories(rows).astype(np.int64)).to(model.device)
        at, events = self._targets(windows, rows, generator), windows.events
        target = torch.from_numpy(events.items[at].astype(np.int64)).to(model.device)
        strengths = None if events.strengths is None else events.strengths[at]
        weights = None if strengths is None else torch.from_numpy(strengths).to(model.device)
        n_items = model.config.n_items
        if self.lists_events:
            return self._listed(model, history, target, weights, generator)
        if n_items <= self.full:
            return softmax_loss(model(history), target, weights)
        users = model.users(history) * model.log_scale.exp()
        sampled = torch.from_numpy(generator.integers(0, n_items, self.negatives)).to(model.device)
        negatives = users @ model.items(sampled).T  # [B, M]
        negatives = negatives.masked_fill(sampled[None, :] == target[:, None], -torch.inf)
        # The samples stand for all items but the target, each with this expected count.
        expected = math.log(self.negatives / max(n_items - 1, 1))
        losses = sampled_softmax_loss((users * model.items(target)).sum(1), negatives - expected)
        return weighted_mean(losses, weights)

    def _listed(
        self,
        model: TwoTower,
        history: Tensor,
        target: Tensor,
        weights: Tensor | None,
        generator: np.random.Generator,
    ) -> Tensor:
        """The objective on lists of the target and random items."""
        shape = (len(target), self.list_negatives)
        sampled = torch.from_numpy(generator.integers(0, model.config.n_items, shape)).to(model.device)
        items = torch.cat([target[:, None], sampled], dim=1)
        valid = pad(sampled != target[:, None], (1, 0), value=True)
        return self.list_mean(model(history, items), valid, weights)

    def instance_scores(self, model: TwoTower, events: Interactions, log: TrainingLog) -> ScoreInstances:
        starts, ends = events.starts[log.log.user_id].astype(np.int64), log.history_ends(events)
        histories = torch.from_numpy(gather(events, starts, ends, self.config.max_history)).to(model.device)

        def scores(batch: InstanceBatch) -> Tensor:
            logits: Tensor = model(histories[batch.users].long(), batch.items.clamp(min=0))
            return logits

        return scores

    def _targets(
        self, windows: Windows, rows: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """The position of a random one of the next `ahead` events of the same user, all equally likely."""
        ends = windows.ends[rows].astype(np.int64)
        last = windows.events.starts[windows.events.users[ends].astype(np.int64) + 1] - 1
        reach = np.minimum(last - ends, self.ahead - 1)
        chosen: NDArray[np.int64] = ends + np.floor(generator.random(len(ends)) * (reach + 1)).astype(
            np.int64
        )
        return chosen
