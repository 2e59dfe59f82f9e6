"""Limits of nominators from the ranks of targets: the same for all requests, or for segments of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.metrics.nomination.allocate import allocate, block_of
from shortlist.metrics.nomination.coverage import Ints
from shortlist.metrics.nomination.terms import Lists
from shortlist.settings import setting
from shortlist.train.context import RequestBatch
from shortlist.train.split.ranks import TargetRanks, all_ranks, ranks_in_pool

BY = ("none", "history", "gate")
LISTS = 300  # requests whose distinct candidates are counted


@dataclass(frozen=True)
class SplitRule:
    """How a budget is split over nominators."""

    by: str = setting(
        "none",
        "What limits depend on: nothing, segments by length of the history, or a gate that reads the history.",
        choices=BY,
    )
    segments: int = setting(4, "Segments, each with about as many training requests.", least=1, most=100)
    floor: int = setting(
        5,
        "Least limit of a nominator that finds a target: it stays in the log that later splits learn from.",
        least=0,
    )
    block: int = setting(10, "Largest number of slots that are given at a time.", least=1)
    shrink: float = setting(
        500.0, "Requests with which the split of all requests counts in every segment.", least=0, most=1e9
    )

    def history(self, ranks: TargetRanks) -> tuple[int, ...]:
        """The shortest history of the second and each further segment."""
        if self.by != "history" or not len(ranks):
            return ()
        shares = np.arange(1, self.segments) / self.segments
        cuts = np.unique(np.quantile(ranks.lengths, shares, method="higher")).astype(np.int64)
        return tuple(int(one) for one in cuts if one > ranks.lengths.min())

    def limits(
        self,
        ranks: TargetRanks,
        budget: int,
        lists: Lists | None,
        history: tuple[int, ...],
        floors: Sequence[int] | None = None,
    ) -> Ints:
        """The limits of every segment [G, N] with the best mean recall.

        With `lists` the budget counts distinct candidates, as a served split does, else slots. `floors` [N] replace
        the floor of the rule.
        """
        return allocate(
            ranks.rank,
            budget,
            segments=segments_of(ranks.lengths, history)[ranks.request],
            n_segments=len(history) + 1,
            weights=ranks.weights,
            block=block_of(budget, self.block),
            floor=min(self.floor, budget // len(ranks.names)) if floors is None else floors,
            shrink=self.shrink,
            lists=lists,
        ).limits

    def learned(self, batches: Sequence[RequestBatch], names: Sequence[str], budget: int) -> dict[str, Any]:
        """The settings of a `split` stage, from the ranks of targets and of all candidates of a pool."""
        ranks = ranks_in_pool(batches, names)
        history = self.history(ranks)
        limits = self.limits(ranks, budget, lists_of(batches, names, history), history).tolist()
        return {"nominators": tuple(names), "limits": tuple(map(tuple, limits)), "history": history}


def lists_of(batches: Sequence[RequestBatch], names: Sequence[str], history: tuple[int, ...]) -> Lists:
    """The candidates of some requests by length of the history."""
    segments = segments_of(ranks_in_pool(batches, names).lengths, history)
    return lists_in(batches, names, segments, len(history) + 1)


def lists_in(batches: Sequence[RequestBatch], names: Sequence[str], segments: Ints, count: int) -> Lists:
    """The candidates of some requests, by the segment of every request [R]."""
    ends = np.cumsum([len(one.targets) for one in batches])
    some = batches[: int(np.searchsorted(ends, LISTS)) + 1]
    ranks, request = all_ranks(some, names)
    own = segments[: sum(len(one.targets) for one in some)]
    return Lists(ranks, own[request], np.bincount(own, minlength=count))


def segments_of(lengths: Ints, history: tuple[int, ...]) -> Ints:
    """The segment of requests with histories of these lengths [R]."""
    return np.searchsorted(np.asarray(history, np.int64), lengths, side="right").astype(np.int64)
