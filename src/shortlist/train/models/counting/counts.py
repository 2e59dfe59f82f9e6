"""Trainers of stages that are counted from the events or built from the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.nominate import ModelNominator, Popular, RandomItems, Recent
from shortlist.settings import setting
from shortlist.stages import Available, Diverse
from shortlist.train.context import DAY, TrainContext

Settings = Mapping[str, Any]
MAX_ONE_HOT = 64  # categories; more of them get random directions, which are nearly orthogonal and smaller


@dataclass(frozen=True)
class PopularTrainer:
    """Counts events, or adds their weights, all of them or those of the last `days`."""

    uses_weights: ClassVar[bool | None] = True
    counts_only: ClassVar[bool] = True

    def check_data(self, settings: Settings, context: TrainContext) -> None:
        """Refuse a window of days in a log without times."""
        counts_in_window(context, float(settings.get("days", 0)))

    def fit(self, settings: Settings, context: TrainContext) -> Popular:
        counts = torch.from_numpy(counts_in_window(context, float(settings.get("days", 0))))
        order = counts.argsort(descending=True, stable=True)
        return Popular(order, counts[order].float() / (float(counts.sum()) or 1.0), **settings)


@dataclass(frozen=True)
class RecentTrainer:
    """Orders items by their first event."""

    uses_weights: ClassVar[bool | None] = None  # the first event of an item is the first whatever its weight
    counts_only: ClassVar[bool] = True

    def fit(self, settings: Settings, context: TrainContext) -> Recent:
        events = context.events
        first = np.full(events.n_items, np.iinfo(np.int64).max)
        np.minimum.at(first, events.items, events.times)
        items = np.flatnonzero(events.popularity)
        order = items[np.argsort(-first[items], kind="stable")]
        age = (context.ends - first[order]) / DAY
        return Recent(torch.from_numpy(order), torch.from_numpy(age.astype(np.float32)), **settings)


@dataclass(frozen=True)
class RandomTrainer:
    """Draws from all items of the catalogue."""

    uses_weights: ClassVar[bool | None] = None  # reads no events

    def fit(self, settings: Settings, context: TrainContext) -> RandomItems:
        return RandomItems(torch.arange(len(context.catalog)), **settings)


@dataclass(frozen=True)
class AvailableTrainer:
    """Turns lists of item ids and of categories into one mask of items."""

    uses_weights: ClassVar[bool | None] = None  # reads no events

    allow: tuple[str | int, ...] = setting((), "Item ids; only these are available.")
    deny: tuple[str | int, ...] = setting((), "Item ids that are never available.")

    def check_data(self, settings: Settings, context: TrainContext) -> None:
        """Refuse items and categories that are not in the catalogue."""
        self.fit(settings, context)

    def fit(self, settings: Settings, context: TrainContext) -> Available:
        items, categories = context.catalog.vocabulary, context.catalog.categories
        allowed = torch.ones(len(items), dtype=torch.bool)
        if self.allow:
            allowed = _mask(items, self.allow, "allow", "item")
        if self.deny:
            allowed &= ~_mask(items, self.deny, "deny", "item")
        for name, keep in (("only", True), ("never", False)):
            if settings.get(name):
                named = _mask(categories, settings[name], name, "category")
                inside = (named[context.category_lists] & (context.category_lists >= 0)).any(1)
                allowed &= inside if keep else ~inside
        return Available(allowed, context.category_lists, **{**settings, **_tuples(settings)})


@dataclass(frozen=True)
class DiverseTrainer:
    """Vectors that measure the similarity of items: their sets of categories, or the item vectors of a nominator."""

    uses_weights: ClassVar[bool | None] = None  # reads no events

    by: str = setting("category", "category, or the name of a nominator with item vectors.")

    def models_used(self) -> dict[str, type[Any]]:
        """The setting that names a nominator with a model, and the kind of model."""
        return {} if self.by == "category" else {"by": VectorModel}

    def fit(self, settings: Settings, context: TrainContext) -> Diverse:
        return Diverse(self._vectors(context), **settings)

    @torch.no_grad()
    def _vectors(self, context: TrainContext) -> Tensor:
        if self.by == "category":
            return _category_vectors(context)
        stage = context.fitted.get(self.by)
        if not isinstance(stage, ModelNominator) or not isinstance(stage.model, VectorModel):
            raise ConfigError(
                f"diverse: by must be 'category' or the name of a nominator with item vectors, got {self.by!r}"
            )
        return F.normalize(stage.model.vectors(), dim=-1)


def counts_in_window(context: TrainContext, days: float) -> NDArray[Any]:
    """Events per item [N], or their summed weights, in the last `days`; 0 means all events."""
    events = context.events
    if days == 0:
        return events.weighted_popularity
    if context.clock == "order":
        raise ConfigError(
            f"a window of {days:g} days needs times, and this log has only the order of events; "
            "set days = 0 or remove the stage"
        )
    recent = events.times > context.ends - days * DAY
    weights = None if events.strengths is None else events.strengths[recent]
    return np.bincount(events.items[recent], weights, events.n_items)


def _category_vectors(context: TrainContext) -> Tensor:
    """Unit vectors whose cosine is |A and B| / sqrt(|A| |B|) for items with the category sets A and B [N, D]."""
    directions = _directions(len(context.catalog.categories), context.seed)
    lists, unknown = context.category_lists, context.catalog.categories.row("")
    # Items without a category are similar to none.
    known = (lists >= 0) & (lists != unknown)  # [N, C]
    return F.normalize((directions[lists.clamp(min=0)] * known[:, :, None]).sum(1), dim=-1)


def _directions(count: int, seed: int) -> Tensor:
    """Unit vectors that are orthogonal, or nearly so, one per category."""
    if count <= MAX_ONE_HOT:
        return torch.eye(count)
    return F.normalize(torch.randn(count, MAX_ONE_HOT, generator=torch.Generator().manual_seed(seed)), dim=-1)


def _mask(vocabulary: Vocabulary, ids: tuple[str | int, ...], setting_name: str, kind: str) -> Tensor:
    """True at the rows of these ids."""
    mask = torch.zeros(len(vocabulary), dtype=torch.bool)
    for outside in ids:
        row = vocabulary.row(outside)
        if row == UNKNOWN:
            raise ConfigError(
                f"available: {setting_name} has the {kind} {outside!r}, which is not in the catalogue"
            )
        mask[row] = True
    return mask


def _tuples(settings: Settings) -> dict[str, tuple[str, ...]]:
    return {name: tuple(settings[name]) for name in ("only", "never") if name in settings}
