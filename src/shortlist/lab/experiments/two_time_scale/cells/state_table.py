"""A table of systems at places: sums by user of every seed, rows, intervals, and paired differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.lab.experiments.two_time_scale.cells.measured import (
    COLUMNS,
    EXCL,
    PRIMARY,
    SEGMENTS,
    UserSums,
    mean_of,
)
from shortlist.lab.experiments.two_time_scale.cells.places import Place
from shortlist.lab.experiments.two_time_scale.cells.state_cell import StateCell
from shortlist.lab.result import Difference, Row, row
from shortlist.metrics.estimate import Estimate, shares

FULL_CATALOGUE = COLUMNS[:4]


@dataclass(frozen=True, eq=False)
class Answer:
    """A cell of the cache."""

    sums: UserSums
    facts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StateTable:
    """The answers that a cache has, by place, system and seed."""

    answers: Mapping[Place, Mapping[str, Mapping[int, Answer]]]

    @classmethod
    def of(cls, cells: Sequence[StateCell], cache: AnswerCache) -> "StateTable":
        """The cells that were run."""
        found: dict[Place, dict[str, dict[int, Answer]]] = {}
        for cell in cells:
            if cache.has(str(cell)):
                tensor, facts = cache.get(str(cell), lambda: (empty(), {}))
                own = found.setdefault(cell.place, {}).setdefault(cell.system.name, {})
                own[cell.seed] = Answer(UserSums.read(tensor), facts)
        return cls(found)

    @property
    def places(self) -> list[Place]:
        return list(self.answers)

    def systems(self, place: Place) -> list[str]:
        """The systems that were run at a place, in the order of the table."""
        return list(self.answers.get(place, {}))

    def has(self, place: Place, *systems: str) -> bool:
        """Whether systems were run at a place, with at least one seed in common."""
        return bool(self.seeds(place, systems))

    def seeds(self, place: Place, systems: Sequence[str]) -> list[int]:
        """The seeds that all of these systems have."""
        known = self.answers.get(place, {})
        return sorted(set.intersection(*(set(known.get(name, {})) for name in systems)))

    def pooled(self, place: Place, system: str, seeds: Sequence[int]) -> UserSums:
        """Users of all seeds; those of MovieLens-1M are the same ones, so their sums are added."""
        own = [self.answers[place][system][seed].sums for seed in seeds]
        if place.world is None:
            columns = [
                np.sum([getattr(one, name) for one in own], axis=0) for name in ("events", "drawn", "sums")
            ]
            return UserSums(own[0].train_counts, *columns)
        names = ("train_counts", "events", "drawn", "sums")
        return UserSums(*(np.concatenate([getattr(one, name) for one in own]) for name in names))

    def fact(self, place: Place, system: str, name: str) -> list[Any]:
        """A fact of every seed that has it."""
        own = self.answers.get(place, {}).get(system, {}).values()
        return [one.facts[name] for one in own if one.facts.get(name) is not None]

    def best(self, place: Place, systems: Sequence[str]) -> str | None:
        """The system with the best reciprocal rank on validation events, as a mean over seeds."""
        known = [name for name in systems if self.has(place, name)]
        return max(known, key=lambda name: np.mean(self.fact(place, name, "validation"))) if known else None

    def rows(self, columns: Sequence[str] = COLUMNS) -> Iterator[Row]:
        """Every metric in every segment of every system, and the costs of its training."""
        for place, systems in self.answers.items():
            for system, own in systems.items():
                yield from self._rows(place, f"{system} on {place}", list(own.values()), columns)

    def _rows(
        self, place: Place, method: str, own: Sequence[Answer], columns: Sequence[str]
    ) -> Iterator[Row]:
        for segment in SEGMENTS:
            masks = [one.sums.segment(segment, place.budget.threshold) for one in own]
            if not all(mask.any() for mask in masks):
                continue
            for column in columns:
                means = [mean_of(one.sums, mask, column) for one, mask in zip(own, masks, strict=True)]
                known = [mean for mean in means if mean is not None]
                if known:
                    yield row(method, f"{column}, {segment}", known)
        for at, column in enumerate((PRIMARY, EXCL)):
            for segment in SEGMENTS:
                blocks = [
                    one.facts["block"][segment][at] for one in own if segment in one.facts.get("block", {})
                ]
                if blocks:
                    yield row(method, f"{column}, {segment}, blocks of equal times", blocks)
        for fact, metric in (("validation", "validation mrr"), ("seconds", "seconds"), ("memory", "peak MB")):
            values = [one.facts[fact] for one in own if fact in one.facts]
            if values:
                yield row(method, metric, values)

    def intervals(self, columns: Sequence[str] = FULL_CATALOGUE) -> dict[str, dict[str, list[Any]]]:
        """Mean, low and high end over the users of all seeds, and their number, by system and metric."""
        found: dict[str, dict[str, list[Any]]] = {}
        for place in self.places:
            for seeds, systems in self._by_seeds(place, self.systems(place)).items():
                pooled = [self.pooled(place, system, seeds) for system in systems]
                for segment in SEGMENTS:
                    users = pooled[0].segment(segment, place.budget.threshold)
                    if not users.any():
                        continue
                    tops = [one.column(column)[users] for one in pooled for column in columns]
                    values = shares(np.column_stack(tops), pooled[0].events[users])
                    names = [(system, column) for system in systems for column in columns]
                    for (system, column), one in zip(names, values, strict=True):
                        own = found.setdefault(f"{system} on {place}", {})
                        own[f"{column}, {segment}"] = [one.mean, one.low, one.high, int(users.sum())]
        return found

    def _by_seeds(self, place: Place, systems: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
        """Systems by the seeds that they have: those of one group have the same users, and share samples."""
        found: dict[tuple[int, ...], list[str]] = {}
        for system in systems:
            found.setdefault(tuple(self.seeds(place, (system,))), []).append(system)
        return found

    def difference(
        self, place: Place, one: str, other: str, segment: str = "all", column: str = PRIMARY
    ) -> tuple[Estimate, int]:
        """The metric of one system minus that of another, with a bootstrap over users of all seeds; their number."""
        seeds = self.seeds(place, (one, other))
        first, second = (self.pooled(place, name, seeds) for name in (one, other))
        users = first.segment(segment, place.budget.threshold)
        gain = (first.column(column) - second.column(column))[users]
        return shares(gain[:, None], first.counts(column)[users])[0], int(users.sum())

    def differences(
        self, place: Place, one: str, others: Sequence[str], columns: Sequence[str] = (PRIMARY,)
    ) -> Iterator[Difference]:
        """The differences of one system from others, in every segment."""
        known = [other for other in others if other != one and self.has(place, one, other)]
        groups: dict[tuple[int, ...], list[str]] = {}
        for other in known:
            groups.setdefault(tuple(self.seeds(place, (one, other))), []).append(other)
        for seeds, systems in groups.items():
            first = self.pooled(place, one, seeds)
            seconds = [self.pooled(place, other, seeds) for other in systems]
            for segment in SEGMENTS:
                users = first.segment(segment, place.budget.threshold)
                gains = [
                    (first.column(column) - second.column(column))[users]
                    for column in columns
                    for second in seconds
                ]
                if not users.any():
                    continue
                names = [(column, other) for column in columns for other in systems]
                values = shares(np.column_stack(gains), first.events[users])
                for (column, other), found in zip(names, values, strict=True):
                    if found.mean is None or found.low is None or found.high is None:
                        continue
                    metric, count = f"{column}, {segment}", int(users.sum())
                    yield Difference(str(place), one, other, metric, found.mean, found.low, found.high, count)
