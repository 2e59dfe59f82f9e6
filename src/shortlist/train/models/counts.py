"""Nominators and filters that are counted rather than trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError
from shortlist.nominate import Popular, Recent
from shortlist.stages import Available, Diverse, Explore, Seen
from shortlist.train.context import DAY, TrainContext

Settings = Mapping[str, Any]
MAX_ONE_HOT = 64  # categories; beyond it random directions are as good as orthogonal, and smaller


@dataclass(frozen=True)
class PopularTrainer:
    """Counts events, all of them or those of the last days."""

    def fit(self, settings: Settings, context: TrainContext) -> Popular:
        counts = torch.from_numpy(recent_counts(context, float(settings.get("days", 0))))
        order = counts.argsort(descending=True, stable=True)
        return Popular(order, counts[order].float() / max(int(counts.sum()), 1), **settings)


@dataclass(frozen=True)
class RecentTrainer:
    """Orders items by their first event."""

    def fit(self, settings: Settings, context: TrainContext) -> Recent:
        events = context.events
        first = np.full(events.n_items, np.iinfo(np.int64).max)
        np.minimum.at(first, events.items, events.times)
        met = np.flatnonzero(events.popularity)
        order = met[np.argsort(-first[met], kind="stable")]
        age = (context.ends - first[order]) / DAY
        return Recent(torch.from_numpy(order), torch.from_numpy(age.astype(np.float32)), **settings)


@dataclass(frozen=True)
class SeenTrainer:
    """Nothing to learn."""

    def fit(self, settings: Settings, context: TrainContext) -> Seen:
        return Seen(**settings)


@dataclass(frozen=True)
class ExploreTrainer:
    """Nothing to learn."""

    def fit(self, settings: Settings, context: TrainContext) -> Explore:
        return Explore(**settings)


@dataclass(frozen=True)
class AvailableTrainer:
    """Turns lists of ids (`allow`: only these, `deny`: not these) and of categories into one list of rows."""

    allow: tuple[str | int, ...] = ()
    deny: tuple[str | int, ...] = ()

    def fit(self, settings: Settings, context: TrainContext) -> Available:
        items, themes = context.catalog.vocabulary, context.catalog.categories
        allowed = torch.ones(len(items), dtype=torch.bool)
        if self.allow:
            allowed = _marked(items, self.allow, "allow", "item")
        if self.deny:
            allowed &= ~_marked(items, self.deny, "deny", "item")
        for name, wanted in (("only", True), ("never", False)):
            if settings.get(name):
                inside = _marked(themes, settings[name], name, "category")[context.categories]
                allowed &= inside if wanted else ~inside
        return Available(allowed, context.categories, **{**settings, **_tuples(settings)})


@dataclass(frozen=True)
class DiverseTrainer:
    """Vectors by which items count as alike: their `category`, or the item vectors of a two-tower stage by name."""

    by: str = "category"

    def fit(self, settings: Settings, context: TrainContext) -> Diverse:
        return Diverse(self._vectors(context), **settings)

    def _vectors(self, context: TrainContext) -> Tensor:
        if self.by == "category":
            vectors = _directions(len(context.catalog.categories), context.seed)[context.categories]
            known = context.categories != context.catalog.categories.row("")
            return vectors * known[:, None]  # items without a category are like nothing
        stage = context.fitted.get(self.by)
        towers = stage.tensors() if stage is not None else {}
        if "offered.weight" not in towers:
            raise ConfigError(
                f"diverse: by must be 'category' or the name of a two-tower stage, got {self.by!r}"
            )
        return F.normalize(towers["offered.weight"] + towers["theme.weight"][towers["category_of"]], dim=-1)


def recent_counts(context: TrainContext, days: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Events per item in the last `days`, or of all time for 0."""
    events = context.events
    if days == 0:
        return events.popularity
    if context.clock == "order":
        raise ConfigError(
            f"a window of {days:g} days needs times, and this log knows only the order of events; "
            "set days = 0 or leave the stage away"
        )
    late = events.times > context.ends - days * DAY
    return np.bincount(events.items[late], minlength=events.n_items)


def _directions(count: int, seed: int) -> Tensor:
    """Unit vectors that are (nearly) orthogonal, one per category."""
    if count <= MAX_ONE_HOT:
        return torch.eye(count)
    return F.normalize(torch.randn(count, MAX_ONE_HOT, generator=torch.Generator().manual_seed(seed)), dim=-1)


def _marked(vocabulary: Vocabulary, ids: tuple[str | int, ...], what: str, of: str) -> Tensor:
    marks = torch.zeros(len(vocabulary), dtype=torch.bool)
    for outside in ids:
        row = vocabulary.row(outside)
        if row == UNKNOWN:
            raise ConfigError(
                f"available: {what} names the {of} {outside!r}, which the catalogue does not know"
            )
        marks[row] = True
    return marks


def _tuples(settings: Settings) -> dict[str, tuple[str, ...]]:
    return {name: tuple(settings[name]) for name in ("only", "never") if name in settings}
