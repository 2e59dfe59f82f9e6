"""From the trace of a run to logged requests: every nominated candidate with its stage, scores and ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data import Candidates, Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.record import MISSING, Array, Funnel, LoggedRequests
from shortlist.feedback.write.propensity import (
    PROPENSITY,
    nominator_propensity,
    pool_propensity,
    slate_propensity,
)
from shortlist.pipeline.trace import RETURNED, Trace

MAX_NOMINATORS = 63  # bits of a mask
MAX_STAGES = 127  # S is int8
SCORING = ("nominator", "scorer", "pipeline")
SAMPLED, NOISE = (
    1,
    2,
)  # bits of exploration_flags: a stage samples the slate, a nominator has noisy user vectors
LOW_BITS = 20  # of a request id: 8 for the writer, 12 for a counter


@dataclass(frozen=True)
class RequestMeta:
    """What a trace does not hold about its requests; one entry per request in every sequence."""

    request_id: Sequence[int]
    ts_ms: Sequence[int]
    user_id: Sequence[int | str | None] = ()  # none: anonymous requests
    policy_version: Sequence[int] = ()  # one per stage; none: 0
    capacities: Sequence[int | None] = ()  # one per stage
    context: Sequence[dict[str, Any] | None] = field(default_factory=tuple)
    noise: Sequence[float] = ()  # on the user vectors of each nominator


def request_id(ts_ms: int, writer: int, counter: int) -> int:
    """A 63-bit id that increases with time: milliseconds, then 8 bits of the writer and 12 of its counter."""
    return (ts_ms << LOW_BITS) | ((writer & 0xFF) << 12) | (counter & 0xFFF)


def from_trace(trace: Trace, meta: RequestMeta, items: Vocabulary | None = None) -> LoggedRequests:
    """All nominated candidates of the requests of a trace, with ids of `items`, or with rows if it is not given."""
    depth = len(trace.steps)
    _check(trace, meta)
    valid = trace.nominated.valid
    stage = torch.where(trace.fate == RETURNED, depth, trace.fate)

    at = np.flatnonzero(valid.cpu().numpy())

    def flat(values: Tensor, kind: Any) -> Array:
        return values.cpu().numpy().reshape(-1)[at].astype(kind, copy=False)

    counts, filtered = valid.sum(1).cpu().numpy(), _filtered(trace)
    ranks = [flat(_ranks(trace, number), np.int32) for number in range(depth)]
    scores = [flat(_scores(trace, number), np.float32) for number in range(depth)]
    size = int(counts.sum())
    return LoggedRequests(
        request_id=np.array(meta.request_id, np.int64),
        ts_ms=np.array(meta.ts_ms, np.int64),
        user_id=_users(meta, len(trace.query)),
        seed=trace.query.seed.cpu().numpy(),
        n_stages=np.full(len(counts), depth, np.int64),
        n_in=_counts([step.entered for step in trace.steps]),
        n_out=_counts([step.kept for step in trace.steps]),
        n_filtered=_filtered_counts(trace, filtered),
        capacities=_per_stage(meta.capacities, depth, len(counts)),
        policy_version=_policy(trace, meta, len(counts)),
        exploration_flags=np.full(len(counts), _flags(trace, meta), np.int32),
        complete=np.ones(len(counts), bool),
        funnel=np.zeros(len(counts), np.int32),
        funnels=(Funnel(trace.names, tuple(part.name for part in trace.steps[0].parts), tuple(meta.noise)),),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        item_id=_item_ids(flat(trace.nominated.items, np.int64), items),
        stage=flat(stage, np.int8),
        channel_mask=flat(_channels(trace), np.int64),
        nominator_ranks=_side_by_side([flat(one, np.int32) for one in _nominator_ranks(trace)], size),
        nominator_propensity=_side_by_side(
            [flat(one, np.float32) for one in nominator_propensity(trace)], size
        ),
        scores=np.stack(scores, axis=1),
        ranks=np.stack(ranks, axis=1),
        position=flat(_places(trace, trace.steps[-1].after), np.int16),
        shown=np.full(size, MISSING, np.int8),
        incl_prob=np.ones(size, np.float32),
        reason=np.zeros(size, np.int8),
        filtered=flat(filtered, bool),
        pool_propensity=flat(pool_propensity(trace), np.float32),
        slate_propensity=flat(slate_propensity(trace), np.float32),
        y=np.full(size, MISSING, np.int8),
    )


def _check(trace: Trace, meta: RequestMeta) -> None:
    count, depth, width = len(trace.query), len(trace.steps), len(trace.steps[0].parts)
    if not len(meta.request_id) == len(meta.ts_ms) == count or len(meta.user_id) not in (0, count):
        raise DataError(
            f"log: expected a request id, a time and a user for each of {count} requests, got {len(meta.request_id)}, "
            f"{len(meta.ts_ms)} and {len(meta.user_id)}"
        )
    if depth > MAX_STAGES or width > MAX_NOMINATORS:
        raise DataError(
            f"log: expected at most {MAX_STAGES} stages and {MAX_NOMINATORS} nominators, got {depth} and {width}"
        )


def _item_ids(rows: Array, items: Vocabulary | None) -> Array:
    """Ids as int64, or as objects that are text."""
    if items is None:
        return rows
    ids: Array = items.ids.take(pa.array(rows)).to_numpy(zero_copy_only=False)
    return ids


def _users(meta: RequestMeta, count: int) -> Array:
    """User ids as they came; None for an anonymous request."""
    users = np.empty(count, object)
    users[:] = list(meta.user_id) or [None] * count
    return users


def _scores(trace: Trace, number: int) -> Tensor:
    """Scores that a stage computed [B, K0]; filters, hydrators and selectors compute none."""
    if trace.steps[number].kind in SCORING:
        return trace.scores(number)
    return torch.full_like(trace.nominated.scores, torch.nan)


def _ranks(trace: Trace, number: int) -> Tensor:
    """Ranks in the input of a stage [B, K0]: by score for a stage that scores, by choice for a selector."""
    step = trace.steps[number]
    if step.kind not in SCORING:
        return (
            _places(trace, step.after) if step.kind == "selector" else torch.zeros_like(trace.nominated.items)
        )
    found = step.before_cut
    return _places(trace, found, found.sort_keys().argsort(dim=1, descending=True, stable=True))


def _filtered(trace: Trace) -> Tensor:
    """Whether a filter removed the candidate [B, K0]."""
    if any(step.kind == "filter" for step in trace.steps):
        return trace.removed_by_filter
    return torch.zeros_like(trace.nominated.valid)


def _filtered_counts(trace: Trace, filtered: Tensor) -> Array:
    """How many candidates a filter of each stage removed [R, T]."""
    count, depth = len(trace.query), len(trace.steps)
    if not any(step.kind == "filter" for step in trace.steps):
        return np.zeros((count, depth), np.int32)
    return _counts([(filtered & (trace.fate == number)).sum(1) for number in range(depth)])


def _places(trace: Trace, found: Candidates, order: Tensor | None = None) -> Tensor:
    """Place from 1 among the valid candidates of a step, in their order or in this one; 0 where absent [B, K0]."""
    count, width = trace.nominated.shape
    # Empty places write into an extra column, which is dropped.
    at = found.slot.masked_fill(~found.valid, width)
    at = at if order is None else at.gather(1, order)
    return at.new_zeros((count, width + 1)).scatter(1, at, (at < width).cumsum(1))[:, :-1]


def _channels(trace: Trace) -> Tensor:
    """Bit k where nominator k returned the candidate [B, K0]."""
    mask = torch.zeros_like(trace.nominated.items)
    for number, part in enumerate(trace.steps[0].parts):
        returned = ~trace.nominated.columns[f"{part.name}.rank"].isnan()
        mask |= returned.to(mask.dtype) << number
    return mask


def _nominator_ranks(trace: Trace) -> list[Tensor]:
    """Place from 1 in the list of each nominator, 0 where it did not return the candidate [B, K0] each."""
    columns = trace.nominated.columns
    return [torch.nan_to_num(columns[f"{part.name}.rank"] + 1, nan=0.0) for part in trace.steps[0].parts]


def _side_by_side(columns: Sequence[Array], size: int) -> Array:
    return np.stack(columns, axis=1) if columns else np.zeros((size, 0), np.float32)


def _flags(trace: Trace, meta: RequestMeta) -> int:
    """Which kinds of exploration the requests had, as bits."""
    samples = PROPENSITY in trace.steps[-1].after.columns
    return (SAMPLED if samples else 0) | (NOISE if any(meta.noise) else 0)


def _counts(per_stage: Sequence[Tensor]) -> Array:
    counts: Array = torch.stack(list(per_stage), dim=1).cpu().numpy().astype(np.int32)
    return counts


def _per_stage(values: Sequence[int | None], depth: int, count: int, otherwise: int = MISSING) -> Array:
    """A number per stage, repeated for every request [R, T]."""
    if values and len(values) != depth:
        raise DataError(
            f"log: expected one number for each of {depth} stages, got {len(values)}: {list(values)}"
        )
    row = [otherwise if one is None else one for one in values] or [otherwise] * depth
    return np.tile(np.array(row, np.int32), (count, 1))


def _policy(trace: Trace, meta: RequestMeta, count: int) -> Array:
    """Policy versions [R, T]; a stage that was skipped in a request has -1: it was not that policy."""
    versions = _per_stage(meta.policy_version, len(trace.steps), count, otherwise=0)
    for number, step in enumerate(trace.steps):
        for note in step.notes:
            if note.what == "degraded":
                rows = slice(None) if note.count is None else note.count.cpu().numpy() > 0
                versions[rows, number] = MISSING
    return versions
