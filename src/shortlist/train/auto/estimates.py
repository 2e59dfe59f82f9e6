"""Seconds of one fit of each part of a pipeline on this log and machine, from short measured runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions, Split
from shortlist.grammar import Stage
from shortlist.pipeline import TYPES, Recipe, run
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.context import TrainContext
from shortlist.train.folds import Folds
from shortlist.train.pipeline import PipelineTrainer
from shortlist.train.registry import TRAINERS, make_trainer

Clock = Callable[[], float]  # seconds

EASE_ITEMS = 2000  # of the small inversion
WARMUP_ITEMS = 50
NEIGHBOUR_ITEMS = (1000, 8000)  # of the sampled product of items, at least and at most
NEIGHBOUR_SHARE = 0.05
STEPS = (1, 4)  # of the two measured trainings
COUNTED_EVENTS = 50_000  # of the sampled counts
TRIAL = "last_click % 100 + popular % 50 >> rank % 20"
TRIAL_STAGES = {"last_click": StageConfig("last-click"), "popular": StageConfig("popular")}
TRIAL_REQUESTS = (128, 640)  # of the two measured trainings of a ranker
LEAST_SHARE = 0.25  # of the seconds per unit of the longer run: a difference below it is noise


@dataclass(frozen=True)
class RankerSeconds:
    """Seconds per request."""

    train: float
    answer: float


@dataclass(frozen=True)
class Meter:
    """Measures short runs on a part of the training events."""

    events: Interactions  # of the training part
    catalog: Catalog
    settings: Mapping[str, Any]  # of the split
    seed: int = 0
    clock: Clock = time.perf_counter

    def seconds(self, work: Callable[[], Any]) -> float:
        """The time of one call."""
        began = self.clock()
        work()
        return self.clock() - began

    def ease(self) -> float:
        """A small inversion, scaled with the third power of the number of items."""
        return self._of_items("ease", EASE_ITEMS, 3)

    def neighbours(self, kind: str) -> float:
        """The product of a sample of the items, scaled with the second power of their number."""
        share = round(NEIGHBOUR_SHARE * self.events.n_items)
        return self._of_items(kind, min(max(share, NEIGHBOUR_ITEMS[0]), NEIGHBOUR_ITEMS[1]), 2)

    def counts(self, kind: str) -> float:
        """The counts of some users, scaled with the number of events."""
        few = self._users(COUNTED_EVENTS)
        return self.seconds(lambda: _fitted(kind, few, self.catalog)) * len(self.events) / max(len(few), 1)

    def epoch(self, kind: str, **settings: Any) -> float:
        """The seconds of an epoch, from the difference between trainings of one and of a few steps."""
        trainer = make_trainer(kind, **{**settings, "epochs": 1})
        steps = max(int(trainer._steps(self.events)), 1)
        parts = [self._users(round(count * len(self.events) / steps)) for count in (0.3, *STEPS)]
        trainer.learn(parts[0], seed=self.seed, catalog=self.catalog)  # loads code
        counts = [max(int(trainer._steps(few)), 1) for few in parts[1:]]
        times = [
            self.seconds(lambda few=few: trainer.learn(few, seed=self.seed, catalog=self.catalog))  # type: ignore[misc]
            for few in parts[1:]
        ]
        return steps * slope(counts, times)

    def ranker(self, kind: str) -> RankerSeconds:
        """The training of a ranker and its answers, with candidates of two cheap nominators."""
        work, few = _trial(kind), self._users(COUNTED_EVENTS)
        context = TrainContext(few, self.catalog, seed=self.seed)
        folds = work.folds(context, _all_of(few, self.settings))
        parts = [_first(folds, count) for count in TRIAL_REQUESTS]
        _, times = zip(*(self._fit_later(work, part, context) for part in (parts[0], *parts)), strict=True)
        trained, _ = self._fit_later(work, parts[0], context)
        pipeline = work.parsed({**folds.parts[0].stages, **trained})
        answers = self.seconds(lambda: [run(pipeline, one.query) for one in parts[1].batches(self.seed)])
        counts = [len(one) for one in parts]
        return RankerSeconds(slope(counts, times[1:]), answers / max(counts[1], 1))

    def _fit_later(
        self, work: PipelineTrainer, folds: Folds, context: TrainContext
    ) -> tuple[dict[str, Stage], float]:
        """The trained ranker and the seconds of its training."""
        began = self.clock()
        trained, _ = work.fit_later(folds, context)
        return trained, self.clock() - began

    def _of_items(self, kind: str, items: int, power: int) -> float:
        _fitted(kind, some_items(self.events, WARMUP_ITEMS, self.seed), self.catalog)  # loads code
        few = some_items(self.events, items, self.seed)
        scale = (self.events.n_items / few.n_items) ** power
        return self.seconds(lambda: _fitted(kind, few, self.catalog)) * scale

    def _users(self, events: int) -> Interactions:
        """The events of random users, about this many."""
        share = min(events / max(len(self.events), 1), 1.0)
        chosen = np.random.default_rng(self.seed).random(self.events.n_users) < share
        few = self.events.where(chosen[self.events.users])
        return few if len(few) else self.events


def some_items(events: Interactions, count: int, seed: int) -> Interactions:
    """The events of `count` random items as a catalogue of their own."""
    if count >= events.n_items:
        return events
    chosen = np.random.default_rng(seed).permutation(events.n_items)[:count]
    row = np.full(events.n_items, -1)
    row[chosen] = np.arange(count)
    kept = events.where(row[events.items] >= 0)
    return Interactions.of(kept.users, row[kept.items], kept.times, kept.weights, events.n_users, count)


def _fitted(kind: str, events: Interactions, catalog: Catalog) -> Any:
    """A nominator without epochs."""
    return make_trainer(kind).fit({"name": kind}, TrainContext(events, catalog))


def slope(counts: Sequence[int], times: Sequence[float]) -> float:
    """Seconds per unit, from a short and a long run: what both take alike is not counted."""
    share = times[1] / max(counts[1], 1)
    if counts[1] <= counts[0]:
        return share
    return max((times[1] - times[0]) / (counts[1] - counts[0]), LEAST_SHARE * share)


def _trial(kind: str) -> PipelineTrainer:
    """A pipeline of two cheap nominators and a ranker."""
    stages = {**TRIAL_STAGES, "rank": StageConfig(kind)}
    return PipelineTrainer.of(
        Recipe("trial", TRIAL, stages, {"requests": TRIAL_REQUESTS[1]}), TYPES, TRAINERS
    )


def _first(folds: Folds, count: int) -> Folds:
    """The folds with about this many requests."""
    return replace(folds, parts=tuple(one.first(max(count // len(folds.parts), 1)) for one in folds.parts))


def _all_of(events: Interactions, settings: Mapping[str, Any]) -> Split:
    """A split of some events without held-out requests."""
    none = np.empty(0, np.int64)
    nobody = HeldOut(events, none, none, none)
    return Split(events, np.ones(len(events), bool), nobody, nobody, dict(settings))
