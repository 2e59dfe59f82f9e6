"""Limits of nominators from the ranks of targets: the same for all requests, or by the length of the history."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.metrics.nomination.allocate import Allocation, allocate
from shortlist.metrics.nomination.coverage import ABSENT, Ints
from shortlist.settings import setting
from shortlist.train.split.ranks import TargetRanks

BY = ("history", "none")


@dataclass(frozen=True)
class SplitRule:
    """How a budget is split over nominators."""

    by: str = setting("history", "Segments of requests: by length of the history, or none.", choices=BY)
    segments: int = setting(4, "Segments, each with about as many training requests.", least=1, most=100)
    floor: int = setting(
        5,
        "Least limit of a nominator that finds a target: it stays in the log that later splits learn from.",
        least=0,
    )
    block: int = setting(10, "Slots that are given at a time.", least=1)
    shrink: float = setting(
        500.0, "Targets with which the split of all requests counts in every segment.", least=0
    )

    def history(self, ranks: TargetRanks) -> tuple[int, ...]:
        """The shortest history of the second and each further segment."""
        if self.by == "none" or not len(ranks):
            return ()
        shares = np.arange(1, self.segments) / self.segments
        cuts = np.unique(np.quantile(ranks.lengths, shares, method="higher")).astype(np.int64)
        return tuple(int(one) for one in cuts if one > ranks.lengths.min())

    def allocated(self, ranks: TargetRanks, budget: int, history: tuple[int, ...]) -> Allocation:
        """The limits of every segment."""
        own = segments_of(ranks.lengths, history)[ranks.request]
        floor = min(self.floor, budget // max(int((ranks.rank < ABSENT).any(axis=0).sum()), 1))
        return allocate(
            ranks.rank,
            budget,
            segments=own,
            n_segments=len(history) + 1,
            block=self.block,
            floor=floor,
            shrink=self.shrink,
        )

    def learned(self, ranks: TargetRanks, budget: int) -> dict[str, Any]:
        """The settings of a `split` stage: names of nominators, limits, and lengths of histories."""
        history = self.history(ranks)
        limits = self.allocated(ranks, budget, history).limits.tolist()
        return {"nominators": ranks.names, "limits": tuple(map(tuple, limits)), "history": history}


def segments_of(lengths: Ints, history: tuple[int, ...]) -> Ints:
    """The segment of requests with histories of these lengths [R]."""
    return np.searchsorted(np.asarray(history, np.int64), lengths, side="right").astype(np.int64)
