"""Another split of the same slots over the nominators: learned on half of the users, measured on the other half."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shortlist.diagnose.knobs.rewritten import Silent, replace_part
from shortlist.diagnose.nominators.lists import NominatorLists
from shortlist.diagnose.nominators.report import NominatorCost, SplitAdvice
from shortlist.diagnose.nominators.shares import found_by_any, most_within, some_of
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import UserSample, count_hits, sample_users
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Pipeline, Stage
from shortlist.metrics.estimate import Estimate
from shortlist.metrics.nomination.allocate import allocate, block_of
from shortlist.metrics.nomination.coverage import ABSENT, Bools
from shortlist.pipeline import run

FLOOR = 5  # slots that every nominator keeps if it finds anything: without any it could not show later what it finds


@dataclass(frozen=True, eq=False)
class Latency:
    """The milliseconds that all nominators may take together, within the budget of a request."""

    budget_ms: float
    available_ms: float


@dataclass(frozen=True, eq=False)
class Terms:
    """What both splits have in common: pairs of `fold` 0 are fitted, those of fold 1 measured."""

    lists: NominatorLists
    fold: Ints  # [P]
    segment: Ints  # [P] the segment of each pair
    segments: int
    costs: Sequence[NominatorCost]
    latency: Latency | None = None

    @property
    def slots(self) -> int:
        """The total of the current limits."""
        return int(self.lists.limits.sum())

    @property
    def fitted(self) -> Bools:
        return np.asarray(self.fold == 0)

    @property
    def measured(self) -> Ints:
        """The users that the limits are not fitted to."""
        return np.unique(self.lists.user[self.fold == 1])

    def limits(self, slots: int, by_segment: bool = False) -> Ints:
        """Limits [N] that find most with so many slots, or those of every segment [G, N]."""
        ranks, prices = some_of(self.lists.rank[self.fitted]), dict[str, Any]()
        live = (ranks < ABSENT).any(0)
        if self.latency is not None:
            own = [[one.call_ms, one.slot_ms] for one in self.costs]
            prices = {"costs": own, "latency": self.latency.available_ms}
        found = allocate(
            ranks,
            min(slots, int(self.lists.longest[live].sum())) if live.any() else slots,
            segments=some_of(self.segment[self.fitted]) if by_segment else None,
            n_segments=self.segments if by_segment else 1,
            block=block_of(slots),
            floor=np.minimum(FLOOR, self.lists.limits).tolist(),
            most=self.lists.longest.tolist(),
            **prices,
        )
        return found.limits if by_segment else found.of(0)


@dataclass(frozen=True, eq=False)
class LearnedSplit:
    """Limits for all users [N] and for each segment [G, N], and their gains on the other users."""

    limits: Ints
    by_segment: Ints
    gain: Estimate
    gain_by_segment: Estimate
    gains: tuple[Estimate, ...]  # of each segment with its own limits


def learn_split(terms: Terms, same_candidates: bool) -> LearnedSplit | NotMeasured:
    """The best limits with as many slots as now, or with as many distinct candidates as now."""
    if (why := _impossible(terms)) is not None:
        return NotMeasured(why)
    lists, slots = terms.lists, terms.slots
    try:
        if same_candidates:
            least = int(np.minimum(FLOOR, lists.limits).sum())
            now = lists.per_request(lists.limits)
            slots = int(most_within(lists, terms.limits, least, slots, now).sum())
        limits, own = terms.limits(slots), terms.limits(slots, by_segment=True)
    except ConfigError as error:
        return NotMeasured(str(error))
    before = found_by_any(lists.rank, lists.limits)
    after = found_by_any(lists.rank, limits), found_by_any(lists.rank, own, terms.segment)
    gains = np.stack([one - before for one in after], axis=1)
    users = [
        np.intersect1d(terms.measured, lists.user[terms.segment == one]) for one in range(terms.segments)
    ]
    each = tuple(lists.recalls(gains[:, 1:], one)[0] for one in users)
    whole, by_segment = lists.recalls(gains, terms.measured)
    return LearnedSplit(limits, own, whole, by_segment, each)


def _impossible(terms: Terms) -> str | None:
    """Why there is nothing to learn."""
    if len(terms.lists.names) < 2:
        return "there is one nominator, so there is nothing to split"
    if not len(terms.measured) or not terms.fitted.any():
        return "a split is learned on one half of the users and measured on the other, and there are too few users"
    if terms.latency is not None and terms.latency.available_ms <= 0:
        return f"the other stages alone take longer than {terms.latency.budget_ms:g} ms"
    return None


def with_limits(pipeline: Pipeline, limits: Mapping[str, int]) -> Pipeline:
    """The pipeline with these limits of the parts of its pool; one without slots nominates nothing."""
    for name in limits:
        pipeline = replace_part(pipeline, name, lambda part: _limited(part, limits[part.title]))
    return pipeline


def _limited(part: Stage, limit: int) -> Stage:
    return part % limit if limit else Silent(name=part.title)


def advice(pipeline: Pipeline, terms: Terms, learned: LearnedSplit, hits: Ints) -> SplitAdvice:
    """The learned split with what it gains in slates: the pipeline run again; `hits` [C] are those it has now."""
    names, lists, sample = terms.lists.names, terms.lists, terms.lists.sample
    current = dict(zip(names, lists.limits.tolist(), strict=True))
    then = dict(zip(names, learned.limits.tolist(), strict=True))
    rows = np.flatnonzero(np.isin(sample.users, terms.measured))
    part = sample_users(sample.held_out.take(rows), sample.n_items, seed=sample.seed)
    changed = {name: limit for name, limit in then.items() if limit != current[name]}
    after, candidates = hits[rows], lists.distinct[rows]
    if changed:
        after, candidates = _run(with_limits(pipeline, changed), part)
    ms = [
        sum(cost.at(limits[name]) for name, cost in zip(names, terms.costs, strict=True))
        for limits in (current, then)
    ]
    return SplitAdvice(
        current,
        then,
        learned.gain,
        learned.gain_by_segment,
        part.recall(after - hits[rows]),
        (float(lists.distinct[rows].mean()), float(candidates.mean())),
        sample.n_users - len(terms.measured),
        len(terms.measured),
        None if terms.latency is None else terms.latency.budget_ms,
        (ms[0], ms[1]),
    )


def _run(pipeline: Pipeline, sample: UserSample) -> tuple[Ints, Ints]:
    """Hits and candidates of every request."""
    hits, candidates = [], []
    for batch in sample.batches:
        with torch.no_grad():
            slate = run(pipeline, batch.query)
        hits.append(count_hits(slate.candidates, batch.relevant))
        candidates.append(slate.trace.nominated.valid.sum(1).numpy())
    return np.concatenate(hits), np.concatenate(candidates)
