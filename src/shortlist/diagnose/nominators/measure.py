"""Measure all nominators of a pipeline on a sample of users."""

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from shortlist.diagnose.nominators.costs import RequestTimes, measure_costs
from shortlist.diagnose.nominators.lists import NominatorLists, measure_lists
from shortlist.diagnose.nominators.report import (
    NominationReport,
    NominatorShare,
    NominatorValue,
    Reveal,
    SegmentNomination,
)
from shortlist.diagnose.nominators.shares import FOLDS, pool_recall, refilled_losses, shares_of
from shortlist.diagnose.nominators.split import Latency, LearnedSplit, Terms, advice, learn_split
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import UserSample, sample_users
from shortlist.diagnose.segments import Pairs, activity
from shortlist.evaluate.latency import Clock
from shortlist.evaluate.losses import Bools, Ints
from shortlist.grammar import Pipeline, leaves
from shortlist.metrics.estimate import Estimate, shares
from shortlist.metrics.nomination.overlap import overlap
from shortlist.nominate import Split
from shortlist.progress import Progress, silent

TIMED = 40  # requests


def measure_nominators(
    pipeline: Pipeline,
    sample: UserSample,
    hits: Ints,
    *,
    budget_ms: float | None = None,
    returned: Sequence[Estimate] | None = None,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> NominationReport:
    """What each nominator finds, shows and costs, and the split of the slots that finds most.

    `hits` [C] are the relevant items that the pipeline returns now, `returned` the Shapley values of slates. The split
    is learned within `budget_ms` for a request if it is given.
    """
    lists = measure_lists(pipeline, sample, progress)
    times = _times(pipeline, sample, budget_ms is not None, clock, progress)
    segments = {name: mask for name, mask in activity(Pairs.of(sample.held_out)).items() if mask.any()}
    latency = None
    if budget_ms is not None and times.p95_ms is not None:
        latency = Latency(budget_ms, times.nominators_ms + budget_ms - times.p95_ms)
    terms = Terms(lists, _folds(lists), _numbers(segments), len(segments), times.costs, latency)
    known = _known_split(pipeline)
    learned, more = (known or learn_split(terms, same_candidates=same) for same in (True, False))
    return NominationReport(
        len(sample),
        sample.n_users,
        len(lists.request),
        pool_recall(lists),
        float(lists.returned.sum(1).mean()),
        float(lists.distinct.mean()),
        _values(lists, terms.fold, times, returned),
        _overlap(lists),
        tuple(_segment(lists, learned, number, *one) for number, one in enumerate(segments.items())),
        learned if isinstance(learned, NotMeasured) else advice(pipeline, terms, learned, hits),
        more if isinstance(more, NotMeasured) else advice(pipeline, terms, more, hits),
    )


def _known_split(pipeline: Pipeline) -> NotMeasured | None:
    """A stage that splits the candidates by limits of its own: those of the lists before it decide little."""
    own = [leaf.title for leaf in leaves(pipeline) if isinstance(leaf, Split)]
    return NotMeasured(f"{own[0]!r} splits the candidates already, by limits of its own") if own else None


def _times(
    pipeline: Pipeline, sample: UserSample, whole: bool, clock: Clock, progress: Progress
) -> RequestTimes:
    rows = np.unique(np.linspace(0, len(sample) - 1, TIMED).astype(np.int64))
    singles = sample_users(sample.held_out.take(rows), sample.n_items, batch=1)
    queries = [batch.query for batch in singles.batches]
    return measure_costs(pipeline, queries, whole, clock=clock, progress=progress)


def _folds(lists: NominatorLists) -> Ints:
    """The half of the users of each pair [P]."""
    users, at = np.unique(lists.sample.users, return_inverse=True)
    half = np.random.default_rng([lists.sample.seed, 5]).permutation(len(users)) % FOLDS
    return np.asarray(half[at][lists.request], np.int64)


def _numbers(segments: Mapping[str, Bools]) -> Ints:
    """The number of the segment of each pair [P]."""
    return np.asarray(np.stack([*segments.values()], axis=1).argmax(1), np.int64)


def _values(
    lists: NominatorLists, fold: Ints, times: RequestTimes, returned: Sequence[Estimate] | None
) -> dict[str, NominatorValue]:
    count = len(lists.names)
    found, revealed = shares_of(lists, refilled=refilled_losses(lists, fold)), _reveals(lists)
    slates = [None] * count if returned is None else returned
    return {
        name: NominatorValue(
            int(lists.limits[number]),
            int(lists.longest[number]),
            float(lists.returned[:, number].mean()),
            found[number],
            revealed[number],
            slates[number],
            times.costs[number],
        )
        for number, name in enumerate(lists.names)
    }


def _reveals(lists: NominatorLists) -> list[Reveal]:
    """Ratios of sums over requests, with intervals over users."""
    sample, count = lists.sample, len(lists.names)
    columns = lists.revealed.reshape(len(sample), -1)  # [C, 5 N]
    top = np.stack([sample.by_user(one) for one in columns.T], axis=1)
    own, liked = top[:, : 4 * count], top[:, 4 * count :]
    of_slates = shares(own, sample.by_user(lists.shown), sample.seed)
    relevant = [shares(liked[:, [number]], own[:, number], sample.seed)[0] for number in range(count)]
    slots = lists.limits / max(int(lists.limits.sum()), 1)
    reveals = []
    for number in range(count):
        share, first, split, alone = (of_slates[kind * count + number] for kind in range(4))
        efficiency = None if split.mean is None else float(split.mean / slots[number])
        reveals.append(Reveal(share, first, split, alone, relevant[number], efficiency))
    return reveals


def _overlap(lists: NominatorLists) -> dict[str, dict[str, float | None]]:
    shared = overlap(lists.candidates < lists.limits).shared
    return {
        name: {
            other: None if np.isnan(value) else float(value)
            for other, value in zip(lists.names, row, strict=True)
        }
        for name, row in zip(lists.names, shared, strict=True)
    }


def _segment(
    lists: NominatorLists, learned: LearnedSplit | NotMeasured, number: int, name: str, mask: Bools
) -> SegmentNomination:
    users = np.unique(lists.user[mask])
    found: dict[str, NominatorShare] = dict(zip(lists.names, shares_of(lists, users), strict=True))
    limits, gain = {}, None
    if isinstance(learned, LearnedSplit):
        limits = dict(zip(lists.names, learned.by_segment[number].tolist(), strict=True))
        gain = learned.gains[number]
    return SegmentNomination(
        name, len(users), int(mask.sum()), pool_recall(lists, users), found, limits, gain
    )
