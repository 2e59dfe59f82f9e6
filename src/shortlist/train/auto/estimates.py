"""Seconds of one fit of each part of a pipeline on this log and machine, from short measured runs."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch

from shortlist.data import Catalog, HeldOut, Interactions, Split
from shortlist.errors import ConfigError
from shortlist.grammar import Stage
from shortlist.pipeline import TYPES, Recipe, run
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.context import TrainContext
from shortlist.train.folds import Folds
from shortlist.train.loop.device import device_of
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.preparation.memory import available_memory
from shortlist.train.registry import TRAINERS, make_trainer

Clock = Callable[[], float]  # seconds
Measured = TypeVar("Measured")

EASE_ITEMS = (1000, 3000)  # of the two small inversions
WARMUP_ITEMS = 50
NEIGHBOUR_ITEMS = (1000, 8000)  # of the sampled product of items, at least and at most
NEIGHBOUR_SHARE = 0.05
NEIGHBOUR_EVENTS = (20_000, 200_000)  # of the sampled users, where a share of the items would be too many
STEPS = (1, 6, 36)  # of the measured trainings; the last one is skipped where the one before was long
LONG = 1.0  # seconds
WHOLE_STEPS = 3  # of a model whose every step reads all events
COUNTED_EVENTS = 50_000  # of the sampled counts
TRIAL = "last_click % 50 + popular % 250 >> rank % 20"
TRIAL_STAGES = {"last_click": StageConfig("last-click"), "popular": StageConfig("popular")}
TRIAL_REQUESTS = (256, 1280)  # of the two measured trainings of a ranker
SHORT, LONGER = (1, 5), (3, 15)  # epochs and trees of two measured trainings
REPEATS = 7  # times the difference between those: about a whole training, with early stopping
LEAST_SHARE = 0.05  # of the seconds per unit of the longer run: a difference below it is noise


@dataclass(frozen=True)
class RankerSeconds:
    """Seconds per request."""

    once: float  # features and the first epoch
    train: float  # a whole training
    answer: float


@dataclass(frozen=True)
class Meter:
    """Measures short runs on a part of the training events."""

    events: Interactions  # of the training part
    catalog: Catalog
    settings: Mapping[str, Any]  # of the split
    seed: int = 0
    clock: Clock = time.perf_counter
    log_clock: str = "ms"  # of the data set, or "order"
    known: dict[tuple[object, ...], Any] = field(default_factory=dict)  # what was measured already
    budget: float = float("inf")  # seconds of the training: an epoch that is longer is not measured exactly

    def once(self, key: tuple[object, ...], work: Callable[[], Measured]) -> Measured:
        """The result of a measurement that is made once."""
        if key not in self.known:
            self.known[key] = work()
        measured: Measured = self.known[key]
        return measured

    def seconds(self, work: Callable[[], Any]) -> float:
        """The time of one call."""
        began = self.clock()
        work()
        return self.clock() - began

    def ease(self) -> float:
        """Two small inversions; their difference grows with the third power of the number of items."""
        return self.once(("ease",), self._ease)

    def _ease(self) -> float:
        self._fitted("ease", some_items(self.events, WARMUP_ITEMS, self.seed))  # loads code
        parts = [some_items(self.events, items, self.seed) for items in EASE_ITEMS]
        times = [self.seconds(lambda few=few: self._fitted("ease", few)) for few in parts]  # type: ignore[misc]
        cubes = [one.n_items**3 for one in parts]
        return times[1] + (self.events.n_items**3 - cubes[1]) * slope(cubes, times)

    def neighbours(self, kind: str) -> float:
        """The product of a sample of the items, scaled with the second power of their number.

        Where that would be few of them, the products of samples of the users: the time of each of many items counts.
        """
        return self.once((kind,), lambda: self._neighbours(kind))

    def _neighbours(self, kind: str) -> float:
        share = round(NEIGHBOUR_SHARE * self.events.n_items)
        if share > NEIGHBOUR_ITEMS[1]:
            return self._of_users(kind)
        return self._of_items(kind, min(max(share, NEIGHBOUR_ITEMS[0]), NEIGHBOUR_ITEMS[1]), 2)

    def counts(self, kind: str) -> float:
        """The counts of some users, scaled with the number of events."""
        return self.once((kind,), lambda: self._counts(kind))

    def _counts(self, kind: str) -> float:
        few = self._users(COUNTED_EVENTS)
        return self.seconds(lambda: self._fitted(kind, few)) * len(self.events) / max(len(few), 1)

    def epoch(self, kind: str, **settings: Any) -> float:
        """The seconds of an epoch, from the difference between trainings of one and of more steps."""
        return self.once((kind, *sorted(settings.items())), lambda: self._epoch(kind, settings))

    def steps(self, kind: str) -> int:
        """The steps of an epoch."""
        return self.once((kind, "steps"), lambda: int(make_trainer(kind)._steps(self.events)))

    def whole_epoch(self, kind: str) -> float:
        """The seconds of an epoch of a model whose every step reads all events, from a few steps."""
        return self.once((kind, "whole"), lambda: self._whole_epoch(kind))

    def _whole_epoch(self, kind: str) -> float:
        trainer = make_trainer(kind)
        device = device_of(trainer.device)
        model = trainer.begin(self.events, self.catalog).to(device)
        losses = itertools.cycle(trainer._batches(model, self.events, self.seed, device)(0))

        def steps(count: int) -> None:
            for loss in itertools.islice(losses, count):
                loss().backward()
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        steps(1)  # loads code
        return self.seconds(lambda: steps(WHOLE_STEPS)) / WHOLE_STEPS * int(trainer._steps(self.events))

    def accepts(self, kind: str, **settings: Any) -> bool:
        """Whether a trainer with epochs accepts these settings for the log, and the device has memory for them."""
        trainer = make_trainer(kind, **settings)
        try:
            trainer.check(self.events)
        except ConfigError:
            return False
        there = available_memory(device_of(trainer.device))
        return there is None or trainer.memory(self.events, self.catalog) <= there

    def _epoch(self, kind: str, settings: Mapping[str, Any]) -> float:
        trainer = make_trainer(kind, **{**settings, "epochs": 1})
        steps = max(int(trainer._steps(self.events)), 1)
        parts = [self._users(round(count * len(self.events) / steps)) for count in (0.3, *STEPS)]
        trainer.learn(parts[0], seed=self.seed, catalog=self.catalog)  # loads code
        counts, times = list[int](), list[float]()
        for few in parts[1:]:
            if times and times[-1] > LONG and len(times) > 1:
                break
            counts.append(max(int(trainer._steps(few)), 1))
            times.append(
                self.seconds(lambda few=few: trainer.learn(few, seed=self.seed, catalog=self.catalog))  # type: ignore[misc]
            )
            if steps / counts[0] * times[0] > self.budget:
                break
        return steps * slope((counts[0], counts[-1]), (times[0], times[-1]))

    def ranker(self, kind: str) -> RankerSeconds:
        """The training of a ranker and its answers, with candidates of two cheap nominators."""
        return self.once((kind,), lambda: self._ranker(kind))

    def _ranker(self, kind: str) -> RankerSeconds:
        short, longer = (_trial(kind, *lengths) for lengths in (SHORT, LONGER))
        few = self._users(COUNTED_EVENTS)
        context = TrainContext(few, self.catalog, self.log_clock, self.seed)
        folds = short.folds(context, _all_of(few, self.settings))
        parts = [_first(folds, count) for count in TRIAL_REQUESTS]
        runs = (
            (short, parts[0]),
            (short, parts[0]),
            (short, parts[1]),
            (longer, parts[1]),
        )  # one to load code
        stages, times = zip(*(self._fit_later(work, part, context) for work, part in runs), strict=True)
        pipeline = short.parsed({**folds.parts[0].stages, **stages[0]})
        answers = self.seconds(lambda: [run(pipeline, one.query) for one in parts[1].batches(self.seed)])
        counts = [max(len(one), 1) for one in parts]
        once = slope(counts, times[1:3])
        rest = REPEATS * max(times[3] - times[2], 0.0) / counts[1]
        return RankerSeconds(once, once + rest, answers / counts[1])

    def _fit_later(
        self, work: PipelineTrainer, folds: Folds, context: TrainContext
    ) -> tuple[dict[str, Stage], float]:
        """The trained ranker and the seconds of its training."""
        began = self.clock()
        trained, _ = work.fit_later(folds, context)
        return trained, self.clock() - began

    def _fitted(self, kind: str, events: Interactions) -> Any:
        """A nominator without epochs."""
        return make_trainer(kind).fit({"name": kind}, TrainContext(events, self.catalog, self.log_clock))

    def _of_items(self, kind: str, items: int, power: int) -> float:
        self._fitted(kind, some_items(self.events, WARMUP_ITEMS, self.seed))  # loads code
        few = some_items(self.events, items, self.seed)
        scale = (self.events.n_items / few.n_items) ** power
        return self.seconds(lambda: self._fitted(kind, few)) * scale

    def _of_users(self, kind: str) -> float:
        """The fits of two samples of users; their difference grows with the pairs of items that users have."""
        parts = [self._users(count) for count in NEIGHBOUR_EVENTS]
        self._fitted(kind, parts[0])  # loads code
        times = [self.seconds(lambda few=few: self._fitted(kind, few)) for few in parts]  # type: ignore[misc]
        pairs = [_pairs(one) for one in parts]
        return times[1] + (_pairs(self.events) - pairs[1]) * slope(pairs, times)

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


def _pairs(events: Interactions) -> int:
    """Pairs of items with a common user, counted once for every user."""
    return int(np.square(events.lengths.astype(np.int64)).sum())


def slope(counts: Sequence[int], times: Sequence[float]) -> float:
    """Seconds per unit, from a short and a long run: what both take alike is not counted."""
    share = times[1] / max(counts[1], 1)
    if counts[1] <= counts[0]:
        return share
    return max((times[1] - times[0]) / (counts[1] - counts[0]), LEAST_SHARE * share)


def _trial(kind: str, epochs: int, trees: int) -> PipelineTrainer:
    """A pipeline of two cheap nominators and a ranker with a short training, also where no target is retrieved."""
    train = {"epochs": epochs, "mode": "original"} | ({"trees": trees} if kind == "blend-ranker" else {})
    stages = {**TRIAL_STAGES, "rank": StageConfig(kind, {}, train)}
    training = {"requests": TRIAL_REQUESTS[1]}
    return PipelineTrainer.of(Recipe("trial", TRIAL, stages, training), TYPES, TRAINERS)


def _first(folds: Folds, count: int) -> Folds:
    """The folds with about this many requests."""
    return replace(folds, parts=tuple(one.first(max(count // len(folds.parts), 1)) for one in folds.parts))


def _all_of(events: Interactions, settings: Mapping[str, Any]) -> Split:
    """A split of some events without held-out requests."""
    none = np.empty(0, np.int64)
    nobody = HeldOut(events, none, none, none)
    return Split(events, np.ones(len(events), bool), nobody, nobody, dict(settings))
