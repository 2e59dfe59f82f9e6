"""One pass over the sampled users: where each nominator's list holds the relevant items, and what the slates hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, merge
from shortlist.data.membership import is_in
from shortlist.diagnose.sample import Batch, UserSample
from shortlist.evaluate.losses import Ints, find_items
from shortlist.grammar import Nominator, Pipeline, Pool, Stage
from shortlist.metrics.estimate import Estimate, Floats, shares
from shortlist.metrics.nomination.coverage import ABSENT, covered
from shortlist.pipeline import run
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.run import Slate
from shortlist.progress import Progress, silent, tracked

DEEPER = 4  # lists are measured up to this times the limit, so that a split can be learned
COUNTED = 100  # requests whose candidates are kept with their ranks in all lists


@dataclass(frozen=True, eq=False)
class NominatorLists:
    """Ranks of all pairs (request, relevant item) in every list, and sums per request."""

    sample: UserSample
    names: tuple[str, ...]
    limits: Ints  # [N]
    longest: Ints  # [N] slots up to which a list was measured
    rank: Ints  # [P, N] from 0, ABSENT where a list does not hold the item
    request: Ints  # [P]
    returned: Ints  # [C, N] candidates of each nominator
    distinct: Ints  # [C] candidates of the pool
    candidates: Ints  # [candidates, N] as `rank`, for the candidates of the first requests
    counted: int  # of these requests
    shown: Ints  # [C] items of the slate
    revealed: Floats  # [C, 5, N] of them by nominator: for each, first, split, alone, relevant

    @cached_property
    def user(self) -> Ints:
        """The user of each pair [P]."""
        return self.sample.users[self.request]

    def per_request(self, limits: Ints) -> float:
        """Distinct candidates per request with other limits [N], of the first requests."""
        return float(covered(self.candidates, limits).any(1).sum() / max(self.counted, 1))

    def recalls(self, values: Floats, users: Ints | None = None) -> tuple[Estimate, ...]:
        """The mean over users of the mean of values over their relevant items, for each column of `values` [P, M].

        With `users`, the mean over these users only.
        """
        weight = 1 / self.sample.n_relevant[self.request]
        columns = [
            self.sample.by_user(np.bincount(self.request, weight * one, minlength=len(self.sample)))
            for one in values.T
        ]
        top, known = np.stack(columns, axis=1), self.sample.by_user(self.sample.n_relevant > 0)
        kept = slice(None) if users is None else np.isin(np.unique(self.sample.users), users)
        return shares(top[kept], known[kept], self.sample.seed)


def limit_of(stage: Stage) -> int | None:
    """The most candidates that a part of a pool can return; None where nothing limits them."""
    if isinstance(stage, Nominator):
        return stage.limit
    inner = [limit_of(child) for child in stage.children()]
    if isinstance(stage, Pool):
        known = [one for one in inner if one is not None]
        return sum(known) if len(known) == len(inner) else None
    return min((one for one in (*inner, stage.capacity) if one is not None), default=None)


def deeper(part: Stage, limit: int) -> Stage | None:
    """The same part with a longer list; None for one that is a pipeline or a pool, whose own stages cut."""
    inner = part
    while isinstance(inner, Guard):
        inner = inner.inner
    return part % limit if isinstance(inner, Nominator) else None


@torch.no_grad()
def measure_lists(pipeline: Pipeline, sample: UserSample, progress: Progress = silent) -> NominatorLists:
    """Run every request once, and every nominator once more with a longer list."""
    parts = pipeline.nominators
    limits = [limit_of(part) for part in parts]
    longer = [
        None if limit is None else deeper(part, min(DEEPER * limit, max(sample.n_items, limit)))
        for part, limit in zip(parts, limits, strict=True)
    ]
    batches, counted = list[_BatchLists](), 0
    for batch in tracked(sample.batches, "nominators", progress):
        lists = _batch(run(pipeline, batch.query), longer, limits, batch, COUNTED - counted)
        counted += lists.counted
        batches.append(lists)
    return _joined(batches, sample, tuple(part.title for part in parts), limits)


@dataclass(frozen=True, eq=False)
class _BatchLists:
    """One batch."""

    rank: Ints  # [P, N]
    request: Ints  # [P] within the batch
    returned: Ints  # [B, N]
    lengths: Ints  # [N] of the longest lists
    distinct: Ints  # [B]
    candidates: Ints  # [candidates, N]
    counted: int
    shown: Ints  # [B]
    revealed: Floats  # [B, 5, N]


def _batch(
    slate: Slate, longer: Sequence[Stage | None], limits: Sequence[int | None], batch: Batch, most: int
) -> _BatchLists:
    query, relevant, parts = batch.query, batch.relevant, slate.trace.steps[0].parts
    none = Candidates.none(len(query), query.history.device)
    lists = [part.nominated for part in parts]
    more = [one if part is None else part(query, none) for one, part in zip(lists, longer, strict=True)]
    both = merge([*lists, *more], [f"{kind}{number}" for kind in "ab" for number in range(len(parts))])
    ranks = torch.stack(
        [
            _rank(both.columns[f"a{number}.rank"], both.columns[f"b{number}.rank"], limit or 0)
            for number, limit in enumerate(limits)
        ],
        -1,
    )  # [B, K, N]
    is_item, (at, there) = relevant >= 0, find_items(both, relevant)
    own = torch.full((*relevant.shape, len(parts)), ABSENT)
    if both.shape[1]:
        places = at[..., None].expand(*at.shape, len(parts))
        own = ranks.gather(1, places).masked_fill(~there[..., None], ABSENT)
    return _BatchLists(
        own[is_item].numpy(),
        is_item.nonzero()[:, 0].numpy(),
        torch.stack([part.count for part in parts], 1).numpy(),
        np.array([_length(one) for one in more]),
        slate.trace.nominated.valid.sum(1).numpy(),
        ranks[:most][both.valid[:most]].numpy(),
        len(relevant[:most]),
        slate.candidates.valid.sum(1).numpy(),
        _revealed(slate.candidates, [part.name for part in parts], relevant),
    )


def _length(found: Candidates) -> int:
    """The most candidates of any request."""
    return int(found.valid.sum(1).max()) if len(found.valid) else 0


def _rank(now: Tensor, longer: Tensor, limit: int) -> Tensor:
    """Ranks in a list as it is, and behind its limit those of the longer list.

    A search for more items may order the first ones in another way, so only the list as it is counts up to its limit.
    """
    beyond = torch.where(longer.isnan(), float(ABSENT), longer.clamp(min=limit))
    return torch.where(now.isnan(), beyond, now).nan_to_num(float(ABSENT)).to(torch.int64).clamp(max=ABSENT)


def _revealed(slate: Candidates, names: Sequence[str], relevant: Tensor) -> Floats:
    """Items of slates by nominator [B, 5, N]: for each, first, split, alone, relevant."""
    ranks = torch.stack([slate.columns[f"{name}.rank"] for name in names], -1)  # [B, K, N]
    by = (~ranks.isnan() & slate.valid[..., None]).to(torch.float64)
    times = by.sum(-1, keepdim=True)
    best = (
        torch.where(by > 0, ranks.nan_to_num(), torch.inf).argmin(-1, keepdim=True) if ranks.numel() else None
    )
    first = torch.zeros_like(by) if best is None else torch.zeros_like(by).scatter_(-1, best, 1.0) * by
    liked = is_in(slate.items, relevant)[..., None]
    counts = (by, first, by / times.clamp(min=1), by * (times == 1), by * liked)
    return torch.stack([one.sum(1) for one in counts], 1).numpy()


def _joined(
    batches: Sequence[_BatchLists], sample: UserSample, names: tuple[str, ...], limits: Sequence[int | None]
) -> NominatorLists:
    starts = np.cumsum([0, *(len(one.shown) for one in batches[:-1])])
    lengths = np.max([one.lengths for one in batches], axis=0)
    slots = np.array(
        [length if limit is None else limit for limit, length in zip(limits, lengths, strict=True)]
    )
    return NominatorLists(
        sample,
        names,
        slots.astype(np.int64),
        np.maximum(lengths, slots).astype(np.int64),
        np.concatenate([one.rank for one in batches]),
        np.concatenate([first + one.request for first, one in zip(starts, batches, strict=True)]),
        np.concatenate([one.returned for one in batches]),
        np.concatenate([one.distinct for one in batches]),
        np.concatenate([one.candidates for one in batches]),
        sum(one.counted for one in batches),
        np.concatenate([one.shown for one in batches]),
        np.concatenate([one.revealed for one in batches]),
    )
