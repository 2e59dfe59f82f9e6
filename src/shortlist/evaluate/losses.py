"""Stage losses: how many relevant items enter each stage of a pipeline, survive it, and are lost there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates
from shortlist.errors import ConservationError, DataError
from shortlist.metrics.estimate import Estimate, Floats, shares
from shortlist.pipeline.trace import RETURNED, Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class StageLoss:
    """Relevant items at one stage: entered = survived + lost."""

    name: str
    kind: str
    entered: int
    survived: int
    lost: int
    removed: int  # of the lost, those a filter removed; the rest was cut
    candidates: float  # per request, after the stage
    ms: float  # per batch


@dataclass(frozen=True)
class NominatorHits:
    """Relevant items that a nominator nominated, and those that no other nominator did."""

    nominated: int
    unique: int


@dataclass(frozen=True)
class StageLosses:
    """Relevant items of all requests from the first stage to the slate; `relevant` = `returned` + all `lost`.

    A relevant item that no nominator nominated is lost at the first stage.
    """

    relevant: int
    returned: int
    stages: tuple[StageLoss, ...]
    nominators: Mapping[str, NominatorHits]

    @property
    def largest(self) -> StageLoss:
        """The stage that loses most."""
        return max(self.stages, key=lambda stage: stage.lost)

    def share(self, count: int) -> float:
        """A count of relevant items as a share of all."""
        return count / max(self.relevant, 1)

    def __str__(self) -> str:
        lines = [f"{'stage':<16}{'entered':>9}{'survived':>10}{'lost':>9}{'share':>8}"]
        lines += [
            f"{stage.name:<16}{stage.entered:>9,}{stage.survived:>10,}{stage.lost:>9,}{self.share(stage.lost):>8.1%}"
            for stage in self.stages
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class StageTrace:
    """Which relevant items are still among the candidates after each stage, one row per (request, relevant item) pair.

    Without `rescue`, an item that was lost may not come back. `weight` is what a pair counts: None is 1 each; one over
    the number of relevant items of its request gives every request the same weight.
    """

    alive: Bools  # [n, S]
    names: tuple[str, ...]
    user: Ints  # [n]
    weight: Floats | None = None  # [n]
    rescue: bool = False

    def __post_init__(self) -> None:
        count = len(self.user)
        if self.alive.shape != (count, len(self.names)):
            raise DataError(
                f"stage trace: expected alive [{count}, {len(self.names)}] for {count} pairs and {len(self.names)} "
                f"stages, got {list(self.alive.shape)}"
            )
        if self.weight is not None and (self.weight.shape != (count,) or not bool((self.weight >= 0).all())):
            raise DataError("stage trace: expected one weight of 0 or more per pair; fix the weights")
        back = self.alive[:, 1:] & ~self.alive[:, :-1]
        if not self.rescue and bool(back.any()):
            stage = self.names[int(back.any(0).argmax()) + 1]
            raise ConservationError(
                f"stage trace: {int(back.sum())} relevant items come back after they were lost, first at {stage!r}; "
                "pass rescue=True for a pipeline that puts items back"
            )

    @property
    def before(self) -> Bools:
        """What is still there before each stage [n, S]."""
        return np.concatenate([np.ones((len(self.user), 1), bool), self.alive], axis=1)[:, : len(self.names)]

    @classmethod
    def joined(cls, parts: Sequence["StageTrace"]) -> "StageTrace":
        """The pairs of several traces of the same stages."""
        if not parts or any(part.names != parts[0].names for part in parts):
            raise DataError("stage trace: expected parts with the same stages, got none or different ones")
        weighted = [part.weight for part in parts if part.weight is not None]
        if len(weighted) not in (0, len(parts)):
            raise DataError("stage trace: expected all parts with weights or none, got some of each")
        return cls(
            np.concatenate([part.alive for part in parts]),
            parts[0].names,
            np.concatenate([part.user for part in parts]),
            np.concatenate(weighted) if weighted else None,
            any(part.rescue for part in parts),
        )


@dataclass(frozen=True, eq=False)
class Losses:
    """Sums per user, whole numbers unless pairs have weights, from which losses and their intervals are computed.

    They add up over shards: `merge` gives the losses of all pairs together.
    """

    names: tuple[str, ...]
    users: Ints  # [U]
    relevant: NDArray[Any]  # [U]
    lost: NDArray[Any]  # [U, S]
    rescued: NDArray[Any]  # [U, S]

    @cached_property
    def per_user(self) -> NDArray[Any]:
        """Relevant items before the first stage and after each stage [U, S + 1]."""
        steps = np.concatenate([self.relevant[:, None], self.rescued - self.lost], axis=1)
        return steps.cumsum(axis=1)

    @property
    def alive(self) -> NDArray[Any]:
        """The same over all users: a_0, a_1, ... [S + 1]."""
        return np.asarray(self.per_user.sum(axis=0))

    @property
    def first_losses(self) -> NDArray[Any]:
        """What each stage loses, less what it puts back [S]; the sum is a_0 - a_S."""
        return np.asarray((self.lost - self.rescued).sum(axis=0))

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """The share of its incoming relevant items that each stage loses; None where none came in."""
        pairs = zip(self.first_losses, self.alive[:-1], strict=True)
        return tuple(float(lost / entered) if entered else None for lost, entered in pairs)

    @property
    def error(self) -> float | None:
        """The share of relevant items that are not returned; None without any."""
        return float(1 - self.alive[-1] / self.alive[0]) if self.alive[0] else None

    @property
    def product_error(self) -> float | None:
        """The same from conditional errors, 1 - product of (1 - e); equal but for rounding."""
        rates = [rate for rate in self.conditional if rate is not None]
        return float(1 - np.prod([1 - rate for rate in rates])) if self.alive[0] else None

    def merge(self, *others: "Losses") -> "Losses":
        """The sums of all shards; a user in several shards is one user."""
        shards = (self, *others)
        if any(shard.names != self.names for shard in shards):
            raise DataError("losses: expected shards with the same stages, got different ones")
        users, at = np.unique(np.concatenate([shard.users for shard in shards]), return_inverse=True)
        relevant, lost, rescued = (
            _summed(at, len(users), np.concatenate([getattr(shard, name) for shard in shards]))
            for name in ("relevant", "lost", "rescued")
        )
        return Losses(self.names, users, relevant, lost, rescued)

    def intervals(self, seed: int = 0, draws: int = 1000) -> tuple[Estimate, ...]:
        """The share of all relevant items that each stage loses, with intervals over users."""
        return shares(self.lost - self.rescued, self.relevant, seed, draws)

    def recall(self, seed: int = 0, draws: int = 1000) -> Estimate:
        """The share of all relevant items that are returned."""
        return shares(self.per_user[:, -1:], self.relevant, seed, draws)[0]


def decompose(trace: StageTrace) -> Losses:
    """Losses by stage and user, in whole numbers where pairs have no weights."""
    users, at = np.unique(trace.user, return_inverse=True)
    weight = np.ones(len(trace.user), np.int64) if trace.weight is None else trace.weight
    before = trace.before
    sums = (
        _summed(at, len(users), weight),
        _summed(at, len(users), (before & ~trace.alive) * weight[:, None]),
        _summed(at, len(users), (~before & trace.alive) * weight[:, None]),
    )
    return Losses(trace.names, users, *sums)


def _summed(at: Ints, count: int, values: NDArray[Any]) -> NDArray[Any]:
    """Rows of values summed by user [U, ...]."""
    sums = np.zeros((count, *values.shape[1:]), values.dtype)
    np.add.at(sums, at, values)
    return sums


@dataclass(frozen=True, eq=False)
class Fates:
    """What a traced batch did to its relevant items [B, R]; padding has no fate."""

    relevant: Tensor  # [B, R] item rows, -1 = padding
    left_at: Tensor  # [B, R] number of the stage each was lost at, RETURNED where it is in the slate
    removed: Tensor  # [B, R] lost because a filter removed it
    nominated_by: Tensor  # [P, B, R] which nominators nominated it

    def alive(self, stages: int) -> Tensor:
        """Whether each is still there after each stage [B, R, S]."""
        after = [(self.left_at > number) | (self.left_at == RETURNED) for number in range(stages)]
        return torch.stack(after, -1) & (self.relevant >= 0)[:, :, None]


def fates(trace: Trace, relevant: Tensor) -> Fates:
    """Follow the relevant items [B, R] through a traced batch.

    Items without a nomination are lost at the first stage.
    """
    at, there = find_items(trace.nominated, relevant)
    ranks = [trace.nominated.columns[f"{part.name}.rank"] for part in trace.steps[0].parts]
    by = [there & ~torch.isnan(_gathered(rank, at)) for rank in ranks]
    return Fates(
        relevant,
        torch.where(there, _gathered(trace.fate, at), 0),
        there & _gathered(trace.removed_by_filter, at),
        torch.stack(by) if by else torch.zeros((0, *relevant.shape), dtype=torch.bool),
    )


def find_items(found: Candidates, items: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each item [B, R] among the candidates of its request, and whether it is there."""
    width = found.shape[1]
    if not width:
        return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
    keys, order = found.items.masked_fill(~found.valid, -1).sort(dim=1)
    at = torch.searchsorted(keys, items.contiguous()).clamp(max=width - 1)
    return order.gather(1, at), (keys.gather(1, at) == items) & (items >= 0)


def _gathered(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(1, places) if values.shape[1] else values.new_zeros(places.shape)


@dataclass(frozen=True, eq=False)
class BatchLosses:
    """The account of one traced batch; batches of the same pipeline add up in `total_losses`."""

    trace: StageTrace
    kinds: tuple[str, ...]
    removed: Ints  # [S] relevant items a filter removed
    candidates: Ints  # [S] after each stage, all requests together
    ms: Floats  # [S]
    requests: int
    nominators: Mapping[str, NominatorHits]


def batch_losses(trace: Trace, relevant: Tensor, users: Ints) -> BatchLosses:
    """Count the relevant items [B, R] of a traced batch stage by stage; `users` [B] are those of the requests."""
    fate, there, stages = fates(trace, relevant), relevant >= 0, range(len(trace.steps))
    alive = fate.alive(len(stages))[there].numpy()
    counts = fate.nominated_by.sum(0)
    hits = [NominatorHits(int(by.sum()), int((by & (counts == 1)).sum())) for by in fate.nominated_by]
    return BatchLosses(
        StageTrace(alive, trace.names, users[there.nonzero()[:, 0].numpy()]),
        tuple(step.kind for step in trace.steps),
        np.array([int((fate.removed & (fate.left_at == number)).sum()) for number in stages]),
        np.array([int(step.kept.sum()) for step in trace.steps]),
        np.array([step.ms for step in trace.steps]),
        len(relevant),
        {part.name: hit for part, hit in zip(trace.steps[0].parts, hits, strict=True)},
    )


def total_losses(batches: Sequence[BatchLosses]) -> tuple[Losses, StageLosses]:
    """The losses per user and the stage rows of all batches of one pipeline, one batch at least."""
    losses = decompose(StageTrace.joined([batch.trace for batch in batches]))
    requests = max(sum(batch.requests for batch in batches), 1)
    removed = np.sum([batch.removed for batch in batches], axis=0)
    candidates = np.sum([batch.candidates for batch in batches], axis=0) / requests
    ms = np.mean([batch.ms for batch in batches], axis=0)
    columns = (losses.alive[:-1], losses.alive[1:], losses.first_losses, removed, candidates, ms)
    rows = zip(losses.names, batches[0].kinds, *(column.tolist() for column in columns), strict=True)
    total, returned = int(losses.alive[0]), int(losses.alive[-1])
    return losses, StageLosses(total, returned, tuple(StageLoss(*row) for row in rows), _hits(batches))


def _hits(batches: Sequence[BatchLosses]) -> dict[str, NominatorHits]:
    return {
        name: NominatorHits(
            sum(batch.nominators[name].nominated for batch in batches),
            sum(batch.nominators[name].unique for batch in batches),
        )
        for name in batches[0].nominators
    }
