"""The record of logged requests: every candidate with the stage it reached, in arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data import Vocabulary
from shortlist.errors import DataError

Array = NDArray[Any]

ALL, STRATUM, GLOBAL = 0, 1, 2  # reasons: the whole stratum, a sample of it, a random item of the catalogue
MISSING = -1  # in whole numbers: not known, or past the last stage of a request


@dataclass(frozen=True)
class Funnel:
    """The names behind the numbers of a request: stage i is stages[i - 1], bit k of a mask is nominators[k]."""

    stages: tuple[str, ...] = ()
    nominators: tuple[str, ...] = ()
    noise: tuple[float, ...] = ()  # on the user vectors of each nominator; empty if no nominator has any


@dataclass(frozen=True, eq=False)
class LoggedRequests:
    """R requests with C candidates in T stages; request r owns the rows offsets[r]:offsets[r + 1].

    `stage` is S: the last stage that kept the candidate, 0 for none, the number of stages if it was served. A request
    with fewer than T stages has -1 in the columns of the others.
    """

    request_id: Array  # int64 [R], increases with time
    ts_ms: Array  # int64 [R]
    user_id: Array  # [R] int64 or text; -1 or "" without a user
    seed: Array  # int64 [R]
    n_stages: Array  # int64 [R]
    n_in: Array  # int32 [R, T] candidates before each stage
    n_out: Array  # int32 [R, T] and after it
    n_filtered: Array  # int32 [R, T] candidates that a filter of the stage removed, -1 = not known
    capacities: Array  # int32 [R, T], -1 for a stage without a cut
    policy_version: Array  # int32 [R, T], -1 for a stage that was skipped
    exploration_flags: Array  # int32 [R]
    complete: Array  # bool [R]: all nominated candidates are in the log
    funnel: Array  # int32 [R], index into `funnels`
    funnels: tuple[Funnel, ...]
    offsets: Array  # int64 [R + 1]
    item_id: Array  # [C] int64 or text
    stage: Array  # int8 [C]
    channel_mask: Array  # int64 [C], bit k = nominator k returned it
    nominator_ranks: Array  # int32 [C, N] from 1 in the list of each nominator, 0 = none or not known
    nominator_propensity: (
        Array  # float32 [C, N] probability that each nominator returns it, NaN = it is not random
    )
    scores: Array  # float32 [C, T], NaN = not scored
    ranks: Array  # int32 [C, T] from 1 in the input of a stage, 0 = none
    position: Array  # int16 [C] from 1, 0 = not served
    shown: Array  # int8 [C], -1 = not known
    incl_prob: Array  # float32 [C], NaN = not known
    reason: Array  # int8 [C]
    filtered: Array  # bool [C]: removed by a filter, not by a cut
    pool_propensity: Array  # float32 [C] probability of its nomination, NaN = no nominator of it is random
    slate_propensity: Array  # float32 [C] probability of its draw into the slate, NaN = not sampled
    y: Array  # int8 [C], -1 = NA

    def __len__(self) -> int:
        return len(self.request_id)

    @property
    def n_candidates(self) -> int:
        return len(self.item_id)

    @property
    def depth(self) -> int:
        """T, the largest number of stages."""
        return int(self.n_out.shape[1])

    @cached_property
    def counts(self) -> Array:
        """Logged candidates of each request [R]."""
        return np.diff(self.offsets)

    @cached_property
    def request(self) -> Array:
        """The index of the request of each candidate [C]."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in (*PER_REQUEST, *PER_CANDIDATE))

    def strata(self) -> Array:
        """N_k, the nominated candidates of each request with S = k, from n_in and n_out [R, T + 1]."""
        held = np.concatenate([self.n_in[:, :1], self.n_out, np.zeros((len(self), 1))], axis=1)
        held = np.maximum(held, 0)
        sizes: Array = (held[:, :-1] - held[:, 1:]).astype(np.int64)
        return sizes

    def filtered_strata(self) -> Array:
        """Of each stratum, the candidates that a filter removed; -1 if a request does not know them [R, T + 1]."""
        here = np.arange(self.depth) < self.n_stages[:, None]
        unknown: Array = np.asarray((here & (self.n_filtered < 0)).any(axis=1))
        counts = np.pad(np.where(here, self.n_filtered, 0), ((0, 0), (0, 1)))
        found: Array = np.where(unknown[:, None], MISSING, counts).astype(np.int64)
        return found

    def take(self, rows: Array) -> "LoggedRequests":
        """These requests, in this order, with their candidates."""
        if _is_all(rows, len(self)):
            return self
        counts = self.counts[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts)
        changed = {name: getattr(self, name)[rows] for name in PER_REQUEST}
        changed |= {name: getattr(self, name)[at] for name in PER_CANDIDATE}
        return replace(self, offsets=offsets, **changed)

    def only(self, at: Array) -> "LoggedRequests":
        """The same requests with only these candidates, in an order that keeps those of a request together."""
        if _is_all(at, self.n_candidates):
            return self
        counts = np.bincount(self.request[at], minlength=len(self))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return replace(self, offsets=offsets, **{name: getattr(self, name)[at] for name in PER_CANDIDATE})

    def as_rows(self, items: Vocabulary, users: Vocabulary) -> "LoggedRequests":
        """The same requests with rows of these vocabularies in place of ids, -1 if unknown."""
        item, user = _rows(items, self.item_id), _rows(users, self.user_id)
        return replace(self, item_id=item, user_id=user)

    def widened(self, depth: int) -> "LoggedRequests":
        """The same requests with room for `depth` stages."""
        if depth == self.depth:
            return self
        room = ((0, 0), (0, depth - self.depth))
        fill = {"scores": np.nan, "ranks": 0}
        wide: dict[str, Any] = {
            name: np.pad(getattr(self, name), room, constant_values=fill.get(name, MISSING))
            for name in PER_STAGE
        }
        return replace(self, **wide)

    def with_nominators(self, count: int) -> "LoggedRequests":
        """The same requests with room for `count` nominators."""
        missing = ((0, 0), (0, count - self.nominator_ranks.shape[1]))
        return replace(
            self,
            nominator_ranks=np.pad(self.nominator_ranks, missing),
            nominator_propensity=np.pad(self.nominator_propensity, missing, constant_values=np.nan),
        )


PER_STAGE = ("n_in", "n_out", "n_filtered", "capacities", "policy_version", "scores", "ranks")
PER_REQUEST = (
    *("request_id", "ts_ms", "user_id", "seed", "n_stages", "n_in", "n_out", "n_filtered", "capacities"),
    *("policy_version", "exploration_flags", "complete", "funnel"),
)
PER_CANDIDATE = tuple(
    one.name for one in fields(LoggedRequests) if one.name not in (*PER_REQUEST, "funnels", "offsets")
)


def logged_requests(
    request_id: Array,
    ts_ms: Array,
    user_id: Array,
    offsets: Array,
    item_id: Array,
    stage: Array,
    n_out: Array,
    **known: Any,
) -> LoggedRequests:
    """Requests from the arrays that matter; whatever is not given is "not known"."""
    count, size, depth = len(request_id), len(item_id), n_out.shape[1]
    if len(offsets) != count + 1 or offsets[-1] != size or len(stage) != size or len(n_out) != count:
        raise DataError(
            f"logged requests: expected {count + 1} offsets that end at {size} candidates with {size} stages and "
            f"{count} rows of n_out, got {len(offsets)} offsets that end at {offsets[-1]}, {len(stage)} stages and "
            f"{len(n_out)} rows; build the arrays from the same requests"
        )
    arrays: dict[str, Any] = {
        "seed": np.zeros(count, np.int64),
        "n_stages": np.full(count, depth, np.int64),
        "n_in": np.concatenate([n_out[:, :1], n_out[:, :-1]], axis=1),
        "n_filtered": np.full((count, depth), MISSING, np.int32),
        "capacities": np.full((count, depth), MISSING, np.int32),
        "policy_version": np.zeros((count, depth), np.int32),
        "exploration_flags": np.zeros(count, np.int32),
        "complete": np.zeros(count, bool),
        "funnel": np.zeros(count, np.int32),
        "funnels": (Funnel(),),
        "channel_mask": np.zeros(size, np.int64),
        "nominator_ranks": np.zeros((size, 0), np.int32),
        "nominator_propensity": np.full((size, 0), np.nan, np.float32),
        "scores": np.full((size, depth), np.nan, np.float32),
        "ranks": np.zeros((size, depth), np.int32),
        "position": np.zeros(size, np.int16),
        "shown": np.full(size, MISSING, np.int8),
        "incl_prob": np.full(size, np.nan, np.float32),
        "reason": np.zeros(size, np.int8),
        "filtered": np.zeros(size, bool),
        "pool_propensity": np.full(size, np.nan, np.float32),
        "slate_propensity": np.full(size, np.nan, np.float32),
        "y": np.full(size, MISSING, np.int8),
    } | known
    given: dict[str, Any] = {"request_id": request_id, "ts_ms": ts_ms, "user_id": user_id, "offsets": offsets}
    return LoggedRequests(
        **given, item_id=item_id, stage=stage.astype(np.int8), n_out=n_out.astype(np.int32), **arrays
    )


def concat(parts: Sequence[LoggedRequests]) -> LoggedRequests:
    """The requests of several records, one after the other."""
    if len(parts) == 1:
        return parts[0]
    depth = max(part.depth for part in parts)
    funnels = tuple(dict.fromkeys(one for part in parts for one in part.funnels))
    width = max(part.nominator_ranks.shape[1] for part in parts)
    parts = [part.widened(depth).with_nominators(width) for part in parts]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*PER_REQUEST, *PER_CANDIDATE)
    }
    number = [np.array([funnels.index(one) for one in part.funnels], np.int32)[part.funnel] for part in parts]
    joined |= {"funnel": np.concatenate(number)}
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))]).astype(
        np.int64
    )
    return LoggedRequests(**joined, funnels=funnels, offsets=offsets)


def _is_all(rows: Array, count: int) -> bool:
    """Whether rows are 0 .. count - 1, so that nothing must be copied."""
    return len(rows) == count and bool(np.array_equal(rows, np.arange(count)))


def _rows(vocabulary: Vocabulary, ids: Array) -> Array:
    """Rows of ids; text finds integers that are written like it, as on a command line."""
    column = pa.array(ids)
    if column.type == vocabulary.ids.type:
        return vocabulary.encode(column).astype(np.int64)
    distinct, at = np.unique(ids, return_inverse=True)
    return vocabulary.rows(distinct.tolist())[at]
