"""Seconds of one fit of each part of a pipeline on this log and machine, from short measured runs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions, Split
from shortlist.pipeline import TYPES, Recipe
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.context import TrainContext
from shortlist.train.pipeline import PipelineTrainer
from shortlist.train.registry import TRAINERS, make_trainer

Clock = Callable[[], float]  # seconds

EASE_ITEMS = 2000  # of the small inversion
WARMUP_ITEMS = 50
NEIGHBOUR_ITEMS = 1000  # of the sampled product of items, at least
NEIGHBOUR_SHARE = 0.05
STEPS = 2  # measured training steps
COUNTED_EVENTS = 50_000  # of the sampled counts
TRIAL = "last_click % 100 + popular % 50 >> rank % 20"
TRIAL_STAGES = {"last_click": StageConfig("last-click"), "popular": StageConfig("popular")}
TRIAL_REQUESTS = 256


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
        return self._of_items(kind, max(NEIGHBOUR_ITEMS, round(NEIGHBOUR_SHARE * self.events.n_items)), 2)

    def counts(self, kind: str) -> float:
        """The counts of some users, scaled with the number of events."""
        few = self._users(COUNTED_EVENTS)
        return self.seconds(lambda: _fitted(kind, few, self.catalog)) * len(self.events) / max(len(few), 1)

    def epoch(self, kind: str, **settings: Any) -> float:
        """A few training steps, scaled with the number of steps of an epoch."""
        trainer = make_trainer(kind, **{**settings, "epochs": 1})
        steps = max(int(trainer._steps(self.events)), 1)
        few, fewer = (self._users(round(count * len(self.events) / steps)) for count in (STEPS, 0.3))
        trainer.learn(fewer, seed=self.seed, catalog=self.catalog)  # loads code
        began = self.clock()
        trainer.learn(few, seed=self.seed, catalog=self.catalog)
        took = self.clock() - began
        return took * steps / max(int(trainer._steps(few)), 1)

    def ranker(self, kind: str) -> float:
        """The training of a ranker on some requests with candidates of two cheap nominators, per request."""
        recipe = Recipe(
            "trial", TRIAL, {**TRIAL_STAGES, "rank": StageConfig(kind)}, {"requests": TRIAL_REQUESTS}
        )
        work, few = PipelineTrainer.of(recipe, TYPES, TRAINERS), self._users(COUNTED_EVENTS)
        none = np.empty(0, np.int64)
        nobody = HeldOut(few, none, none, none)
        split = Split(few, np.ones(len(few), bool), nobody, nobody, dict(self.settings))
        context = TrainContext(few, self.catalog, seed=self.seed)
        folds = work.folds(context, split)
        began = self.clock()
        work.fit_later(folds, context)
        return (self.clock() - began) / max(len(folds), 1)

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
