"""Ranking features from training events and the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.stages.ranking_features import ITEMS, POOL, REPEATS, SCORED, RankingFeatures
from shortlist.train.context import DAY, TrainContext
from shortlist.train.models.counting.counts import counts_in_window


def ranking_features(
    settings: Mapping[str, Any], context: TrainContext, days: float, what: str, with_columns: bool = True
) -> RankingFeatures:
    """The features of a ranker: the nominators and columns of its settings, by default all."""
    nominators = _nominators(settings, context, what)
    features = _counted(nominators, context, days, _extras(nominators, context))
    if not with_columns:
        return features
    trained = context.events.popularity > 0
    columns = CatalogColumns.of(context.catalog, trained, list(settings.get("columns", ())))
    return replace(features, columns=columns)


def renewed_features(features: RankingFeatures, context: TrainContext, days: float) -> RankingFeatures:
    """The same features with the counts of all events; counts enter as shares, so their scale stays the same."""
    counted = _counted(features.nominators, context, days, features.extras)
    return replace(counted, columns=features.columns)


def _nominators(settings: Mapping[str, Any], context: TrainContext, what: str) -> list[str]:
    """The nominators of the settings, by default all."""
    known = [name[:-5] for one in context.batches[:1] for name in one.found.columns if name.endswith(".rank")]
    nominators = list(settings.get("nominators", known))
    for name in nominators:
        if name not in known:
            raise ConfigError(f"{what}: unknown nominator {name!r}; expected some of {', '.join(known)}")
    return nominators


def _extras(nominators: Sequence[str], context: TrainContext) -> tuple[str, ...]:
    """The further features that these candidates and this log have."""
    present = {name for one in context.batches[:1] for name in one.found.columns}
    scored = [name for name in nominators if f"{name}.z" in present]
    columns = [f"{name}.{what}" for name in scored for what in POOL if f"{name}.{what}" in present]
    times = () if context.clock == "ms" else ("trend",)
    items = [name for name in ITEMS if name not in times and (scored or name != "mean_z")]
    seen = any(bool(is_in(one.found.items, one.query.history).any()) for one in context.batches)
    repeats = REPEATS if seen else ()
    return (
        *columns,
        *(f"{name}.{SCORED}" for name in scored),
        *items,
        *repeats,
        *(() if times else ("age",)),
    )


def _counted(
    nominators: Sequence[str], context: TrainContext, days: float, extras: tuple[str, ...]
) -> RankingFeatures:
    """Features with the counts of these events; without timestamps all events are recent."""
    recent = counts_in_window(context, days if context.clock == "ms" else 0.0)
    popularity = torch.from_numpy(context.events.weighted_popularity.copy())
    return RankingFeatures(
        tuple(nominators),
        popularity,
        torch.from_numpy(recent.copy()),
        context.category_lists,
        extras=extras,
        age=_age(context) if "age" in extras else None,
    )


def _age(context: TrainContext) -> Tensor:
    """Days between the first event of each item and the end of the log [N], -1 for items without events."""
    events = context.events
    first = np.full(events.n_items, np.iinfo(np.int64).max)
    np.minimum.at(first, events.items, events.times)
    days = np.where(events.popularity > 0, (context.ends - first) / DAY, -1.0)
    return torch.from_numpy(days.astype(np.float32))
