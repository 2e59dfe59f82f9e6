"""Whether limits that are learned from a log replace the fixed ones: learned on half of the users, measured on others.

Fixed and learned limits have the same mean number of distinct candidates, so a ranker has as many to score.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from shortlist.data import Candidates
from shortlist.data.candidates import merge
from shortlist.metrics.nomination.coverage import Bools, Floats, Ints
from shortlist.metrics.significance import PairedTest, paired
from shortlist.train.context import RequestBatch
from shortlist.train.folds import Fold, Folds
from shortlist.train.split.learn import SplitRule, lists_of, segments_of
from shortlist.train.split.ranks import TargetRanks, ranks_in_pool

GLOBAL, SEGMENTS = "global", "segments"
CANDIDATES = (GLOBAL,)  # what may replace fixed limits, the simplest first
KEPT = ("popular", "repeat")  # users without a history need them, and no out-of-fold request is of one
MOST = 3000  # requests of both halves
FEWEST = 500  # requests of each half with a found target; with fewer, fixed limits stay
WIDER = 2  # times the fixed limit: length of the lists that limits are learned from
SPARE = 1.25  # times the largest limit of the segments: a split reads on where candidates are the same


@dataclass(frozen=True)
class SplitChoice:
    """The limits of the nominators, the settings of a `split` stage behind them if there is one, and the reason."""

    limits: Mapping[str, int]
    reason: str
    learned: bool = False
    split: Mapping[str, Any] = field(default_factory=dict)  # empty: the limits alone
    budget: int = 0  # k of the split


def choose_split(
    folds: Folds, limits: Mapping[str, int], seed: int = 0, kinds: Sequence[str] = CANDIDATES
) -> SplitChoice:
    """The fixed limits, or those learned ones that retrieve clearly more targets of other users.

    A split by segments must be better than the one for all.
    """
    wide = list(_wide(folds, limits, seed))
    ranks = ranks_in_pool(wide, tuple(limits))
    fitted = np.random.default_rng((seed, 83)).random(int(ranks.users.max(initial=0)) + 1) < 0.5
    half = fitted[ranks.users]
    few = min(_with_target(ranks, half), _with_target(ranks, ~half))
    if few < FEWEST:
        return SplitChoice(
            limits, f"fixed limits: {few} requests of a half of the users have a target in the lists"
        )
    trial = _Trial(wide, ranks, half, limits)
    best, reasons = SplitChoice(limits, ""), list[str]()
    kept = trial.recall(SplitRule(by="none"), np.array([list(limits.values())]))
    for kind in kinds:
        rule = SplitRule(by="history" if kind == SEGMENTS else "none")
        measured = trial.recall(rule, trial.learned(rule, half))
        test = paired(torch.from_numpy(measured), torch.from_numpy(kept), seed)
        reasons.append(_text(kind, test, kept, int((~half).sum())))
        if test.above:
            best, kept = trial.choice(rule, kind), measured
    why = "; ".join(reasons)
    return SplitChoice(best.limits, why, best.learned, best.split, best.budget)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Requests with wide lists, half of them to learn from."""

    batches: list[RequestBatch]
    ranks: TargetRanks
    half: Bools  # [R]
    fixed: Mapping[str, int]

    @property
    def budget(self) -> int:
        """Distinct candidates of the fixed limits per request."""
        lists = lists_of(self.batches, tuple(self.fixed), ())
        found = (lists.rank < np.array(list(self.fixed.values()))).any(axis=1).sum()
        return max(round(float(found) / max(int(lists.requests.sum()), 1)), 1)

    def learned(self, rule: SplitRule, requests: Bools) -> Ints:
        """The limits of every segment, from some of the requests [G, N]."""
        history = rule.history(self.ranks)
        lists = lists_of(self.batches, tuple(self.fixed), history)
        return rule.limits(self.ranks.where(requests), self.budget, lists, history, self.floors(rule))

    def floors(self, rule: SplitRule) -> list[int]:
        """The least limits: those of nominators that always stay are the fixed ones."""
        return [limit if name in KEPT else min(rule.floor, limit) for name, limit in self.fixed.items()]

    def recall(self, rule: SplitRule, limits: Ints) -> Floats:
        """Share of the targets of each other request that these limits retrieve."""
        others = self.ranks.where(~self.half)
        return others.recall(limits, segments_of(others.lengths, rule.history(self.ranks)))

    def choice(self, rule: SplitRule, kind: str) -> SplitChoice:
        """The limits from all requests."""
        every = self.learned(rule, np.ones(len(self.ranks), np.bool_))
        if kind == GLOBAL:
            return SplitChoice(self._named(every[0]), "", True)
        longest = np.ceil(SPARE * every.max(axis=0)).astype(np.int64)
        rows = tuple(map(tuple, every.tolist()))
        split = {"nominators": tuple(self.fixed), "limits": rows, "history": rule.history(self.ranks)}
        return SplitChoice(self._named(longest), "", True, split, self.budget)

    def _named(self, limits: Ints) -> dict[str, int]:
        """Limits by nominator, at least 1: a nominator that found nothing here stays in the log."""
        least = {name: limit if name in KEPT else 1 for name, limit in self.fixed.items()}
        return {name: max(int(limit), least[name]) for name, limit in zip(self.fixed, limits, strict=True)}


def without_candidates(folds: Folds) -> Folds:
    """The requests of the folds without their candidates."""
    parts = (
        Fold(one.stages, tuple(own.with_found(_none(own)) for own in one.batches)) for one in folds.parts
    )
    return Folds(tuple(parts), folds.events)


def _wide(folds: Folds, limits: Mapping[str, int], seed: int) -> Iterator[RequestBatch]:
    """Some requests of all folds with longer lists."""
    left = MOST
    for fold in folds.parts:
        for batch in fold.first(MOST // len(folds.parts)).batches:
            if left <= 0:
                return
            left -= len(batch.targets)
            with torch.no_grad():
                lists = [
                    fold.stages[name].at_most(WIDER * limit)(batch.query, _none(batch))
                    for name, limit in limits.items()
                ]
            yield batch.with_found(merge(lists, list(limits)))


def _none(batch: RequestBatch) -> Candidates:
    return Candidates.none(len(batch.query), batch.query.history.device)


def _with_target(ranks: TargetRanks, requests: Bools) -> int:
    """Requests with a target that a nominator returns."""
    some = ranks.where(requests)
    return len(np.unique(some.request[some.listed]))


def _text(kind: str, test: PairedTest, before: Floats, requests: int) -> str:
    what = "limits by length of history" if kind == SEGMENTS else "limits learned from the log"
    recall = float(np.nanmean(before))
    return (
        f"{what}: recall of the pool on {requests:,} out-of-fold requests of other users is "
        f"{recall + test.difference:.4f} against {recall:.4f} "
        f"({test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}])"
    )
