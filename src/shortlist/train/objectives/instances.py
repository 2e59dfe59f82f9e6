"""Training instances of FS-LTR: exposed positives of a request with negatives of every stage of its funnel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.train.objectives.relabel import check_ladder, consecutive, reindex
from shortlist.train.objectives.stage_log import Array, Segments, StageLog, UserItems


def default_counts(n_stages: int, j: int = 0) -> dict[int, int]:
    """One negative of every stage S >= j, and two random items of the catalogue where j is 0."""
    return {stage: 2 if stage == 0 else 1 for stage in range(n_stages, j - 1, -1)}


@dataclass(frozen=True, eq=False)
class InstanceBatch:
    """B lists of L items; padding has item -1, label 0, weight 0 and mask False."""

    users: Tensor  # int64 [B]; numbers of requests for a sampler with `by_request`
    items: Tensor  # int64 [B, L]
    labels: Tensor  # float32 [B, L]
    mask: Tensor  # bool [B, L]
    weight: Tensor  # float32 [B, L]

    def __len__(self) -> int:
        return len(self.users)

    def to(self, device: torch.device) -> "InstanceBatch":
        """The same instances on another device."""
        return type(self)(*(one.to(device) for one in vars(self).values()))


@dataclass(frozen=True, eq=False)
class StagedBatch(InstanceBatch):
    """Instances with the last stage that each item passed, and its score of one stage."""

    stage: Tensor  # int64 [B, L], 0 for random items and padding
    score: Tensor  # float32 [B, L], NaN = not scored


@dataclass(frozen=True, eq=False)
class Draws:
    """What one set of instances holds: rows of the log and random items of the catalogue, -1 = none."""

    request: Array  # [I]
    positives: Array  # [I, positives]
    negatives: Array  # [I, all counts but that of stage 0]
    random: Array  # [I, count of stage 0] items, not rows

    def take(self, some: Array) -> "Draws":
        """Only these instances."""
        return Draws(self.request[some], self.positives[some], self.negatives[some], self.random[some])


@dataclass(frozen=True, eq=False)
class InstanceSampler:
    """Lists of `positives` exposed positives and `counts[S]` negatives of each stage S, highest stage first.

    counts[n_stages] are exposed negatives; counts[0] are uniform over the catalogue without the user's positives.
    Every exposed positive is in one instance of an epoch. A slot without an item is masked, never filled from another
    stratum. Strata without a count are dropped, and the labels of the ladder become consecutive again.
    """

    log: StageLog
    counts: Mapping[int, int] | None = None  # None: `default_counts`
    ladder: tuple[float, ...] | None = None  # None: 0, 1, ..
    batch_size: int = 128
    seed: int = 0
    positives: int = 1
    exclude: tuple[Array, Array] | None = None  # users, items: positives besides those of the log
    keep_draws: bool = False  # the same instances in every epoch, in another order
    ht_weight: bool = False  # weights 1 / incl_prob instead of 1
    ht_draw: bool = False  # with ht_weight: also times (logged items of the stratum) / (items drawn from it)
    ht_clip: float = 100.0
    by_request: bool = False  # instances carry the number of their request in place of the user
    staged: bool = False  # batches are `StagedBatch`
    scores_of: int | None = None  # with the scores of this stage

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.positives < 1:
            raise ConfigError("batch_size and positives must be at least 1")
        for stage, count in (self.counts or {}).items():
            if not 0 <= stage <= self.log.n_stages or count < 0:
                raise ConfigError(
                    f"counts must map stages 0..{self.log.n_stages} to numbers of negatives, got {stage}: {count}"
                )
        check_ladder(self.labels, self.log.n_stages)

    @cached_property
    def stage_counts(self) -> dict[int, int]:
        """The number of negatives of each stage, highest stage first."""
        given = default_counts(self.log.n_stages) if self.counts is None else self.counts
        return {stage: given[stage] for stage in sorted(given, reverse=True) if given[stage]}

    @cached_property
    def labels(self) -> tuple[float, ...]:
        """The ladder in use: consecutive again where strata have no count."""
        ladder = consecutive(self.log.n_stages) if self.ladder is None else self.ladder
        return reindex(ladder, set(range(self.log.n_stages + 1)) - set(self.stage_counts))

    @property
    def relevant_from(self) -> float:
        """The label of exposed positives."""
        return self.labels[-1]

    @property
    def width(self) -> int:
        """L, the length of all lists."""
        return len(self._strata)

    def __len__(self) -> int:
        """The number of instances of an epoch."""
        return int(self._chunks.sum())

    def batches(self, epoch: int) -> Iterator[InstanceBatch]:
        """All instances of one epoch in random order; a function of seed, epoch and batch size."""
        order = self._rng(epoch, 1).permutation(len(self))
        whole = self._kept if self.keep_draws else self._instances(epoch)
        for start in range(0, len(order), self.batch_size):
            some = whole.take(order[start : start + self.batch_size])
            yield self._batch(some if self.keep_draws else self._draw(some, self._rng(epoch, 3, start)))

    def _rng(self, *place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *place))

    @cached_property
    def _kept(self) -> Draws:
        """The draws of all epochs with `keep_draws`."""
        return self._draw(self._instances(0), self._rng(0, 3))

    def _instances(self, epoch: int) -> Draws:
        """All instances of an epoch before negatives are drawn: random groups of a request's positives."""
        rows = np.flatnonzero(self.log.stratum == self.log.n_stages + 1)
        request = self.log.request[rows]
        random = self._rng(epoch, 2).random(len(rows)) if self.positives > 1 else rows
        order = np.lexsort((random, request))
        place = np.arange(len(rows)) - (np.cumsum(self._n_positives) - self._n_positives)[request]
        at = (np.cumsum(self._chunks) - self._chunks)[request] + place // self.positives
        grouped = np.full((len(self), self.positives), -1, np.int64)
        grouped[at, place % self.positives] = rows[order]
        none = np.empty((len(self), 0), np.int64)
        return Draws(np.repeat(np.arange(len(self._chunks)), self._chunks), grouped, none, none)

    def _draw(self, some: Draws, rng: np.random.Generator) -> Draws:
        """The same instances with negatives."""
        drawn = [
            self._segments.draw(some.request, stage, count, rng)
            for stage, count in self.stage_counts.items()
            if stage
        ]
        users = np.asarray(self.log.user_id)[some.request]
        random = self._user_positives.others(users, self.stage_counts.get(0, 0), rng)
        return Draws(some.request, some.positives, np.concatenate([some.negatives, *drawn], 1), random)

    def _batch(self, draws: Draws) -> InstanceBatch:
        rows = np.concatenate([draws.positives, draws.negatives], 1)
        logged = np.where(rows >= 0, self._take(self.log.item_id, rows), -1)
        items = np.concatenate([logged, draws.random], 1).astype(np.int64)
        mask = items >= 0
        labels = np.where(mask, np.asarray(self.labels)[self._strata], 0.0).astype(np.float32)
        weight = np.where(mask, self._weights(draws, rows), 0.0).astype(np.float32)
        users = draws.request if self.by_request else np.asarray(self.log.user_id, np.int64)[draws.request]
        columns = [torch.from_numpy(one) for one in (users, items, labels, mask, weight)]
        if not self.staged:
            return InstanceBatch(*columns)
        staged = (torch.from_numpy(one) for one in self._staged(rows, mask))
        return StagedBatch(*columns, *staged)

    def strength(self, batch: InstanceBatch) -> Tensor | None:
        """How much each list of a batch counts [B]: the strength of its one positive; None where all are equal."""
        if self.log.strength is None:
            return None
        keys = batch.users * self.log.n_items + batch.items[:, 0]
        at = np.searchsorted(self._positive_keys, keys.cpu().numpy())
        return torch.from_numpy(self._positive_strengths[at]).to(batch.items.device)

    @cached_property
    def _positive_rows(self) -> Array:
        """Rows of exposed positives in the order of their request and item."""
        rows = np.flatnonzero(self.log.stratum == self.log.n_stages + 1)
        return rows[np.lexsort((self.log.item_id[rows], self.log.request[rows]))]

    @cached_property
    def _positive_keys(self) -> Array:
        rows = self._positive_rows
        return self.log.request[rows] * self.log.n_items + np.asarray(self.log.item_id, np.int64)[rows]

    @cached_property
    def _positive_strengths(self) -> Array:
        strength = np.ones(self.log.n_rows) if self.log.strength is None else self.log.strength
        return np.asarray(strength, np.float32)[self._positive_rows]

    def _staged(self, rows: Array, mask: Array) -> tuple[Array, Array]:
        """S and the score of every place [B, L]; random items of the catalogue have no score."""
        stage = np.where(mask, np.minimum(self._strata, self.log.n_stages), 0)
        score = np.full(mask.shape, np.nan, np.float32)
        if self.scores_of is not None and self.log.scores is not None:
            known = self._take(self.log.scores_of(self.scores_of), rows)
            score[:, : rows.shape[1]] = np.where(rows >= 0, known, np.nan)
        return stage, score

    def _weights(self, draws: Draws, rows: Array) -> Array:
        """The weight of every place [B, L]: 1, or the clipped inverse of its probability to be in the instance."""
        weight = np.ones((len(rows), self.width))
        if self.ht_weight and self.log.incl_prob is not None:
            weight[:, : rows.shape[1]] /= self._take(self.log.incl_prob, rows)
        if self.ht_weight and self.ht_draw:
            weight *= self._strata_sizes(draws.request)
        return np.minimum(weight, self.ht_clip)

    def _strata_sizes(self, request: Array) -> Array:
        """Available items of the stratum / items drawn from it, of every place [B, L]; 1 for positives."""
        sizes = np.ones((len(request), self.width))
        for stage, count in self.stage_counts.items():
            users = np.asarray(self.log.user_id)[request]
            available = (
                self._segments.counts_of(request, stage) if stage else self._user_positives.free(users)
            )
            sizes[:, self._strata == stage] = np.maximum(available / count, 1.0)[:, None]
        return sizes

    def _take(self, column: Array, rows: Array) -> Array:
        """The column at these rows; any value for -1."""
        return np.asarray(column)[np.maximum(rows, 0)] if self.log.n_rows else np.ones(rows.shape, np.int64)

    @cached_property
    def _strata(self) -> Array:
        """The entry of the ladder of every place of a list [L]."""
        places = [self.log.n_stages + 1] * self.positives
        return np.array(places + [stage for stage, count in self.stage_counts.items() for _ in range(count)])

    @cached_property
    def _segments(self) -> Segments:
        log = self.log
        return Segments.of(log.request, log.stratum, len(log.user_id), log.n_stages + 2)

    @cached_property
    def _n_positives(self) -> Array:
        """Exposed positives of every request [R]."""
        return self._segments.counts_of(np.arange(len(self.log.user_id)), self.log.n_stages + 1)

    @cached_property
    def _chunks(self) -> Array:
        """Instances of every request [R]."""
        return -(-self._n_positives // self.positives)

    @cached_property
    def _user_positives(self) -> UserItems:
        """What is never a global negative of a user."""
        rows = np.flatnonzero(self.log.stratum == self.log.n_stages + 1)
        users = np.asarray(self.log.user_id, np.int64)[self.log.request[rows]]
        items = np.asarray(self.log.item_id, np.int64)[rows]
        more_users, more_items = ((), ()) if self.exclude is None else self.exclude
        every = np.concatenate([users, np.asarray(more_users, np.int64)])
        n_users = 1 + int(max(np.max(self.log.user_id, initial=-1), np.max(every, initial=-1)))
        return UserItems.of(
            every, np.concatenate([items, np.asarray(more_items, np.int64)]), n_users, self.log.n_items
        )
