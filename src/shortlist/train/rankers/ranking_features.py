"""Ranking features from training events and the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from shortlist.errors import ConfigError
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.stages.ranking_features import RankingFeatures
from shortlist.train.context import TrainContext
from shortlist.train.models.counts import counts_in_window


def ranking_features(
    settings: Mapping[str, Any], context: TrainContext, days: float, what: str, with_columns: bool = True
) -> RankingFeatures:
    """The features of a ranker: the nominators and columns of its settings, by default all."""
    features = _counted(_nominators(settings, context, what), context, days)
    if not with_columns:
        return features
    trained = context.events.popularity > 0
    columns = CatalogColumns.of(context.catalog, trained, list(settings.get("columns", ())))
    return replace(features, columns=columns)


def renewed_features(features: RankingFeatures, context: TrainContext, days: float) -> RankingFeatures:
    """The same features with the counts of all events; counts enter as shares, so their scale stays the same."""
    return replace(_counted(features.nominators, context, days), columns=features.columns)


def _nominators(settings: Mapping[str, Any], context: TrainContext, what: str) -> list[str]:
    """The nominators of the settings, by default all."""
    known = [name[:-5] for one in context.batches[:1] for name in one.found.columns if name.endswith(".rank")]
    nominators = list(settings.get("nominators", known))
    for name in nominators:
        if name not in known:
            raise ConfigError(f"{what}: unknown nominator {name!r}; expected some of {', '.join(known)}")
    return nominators


def _counted(nominators: Sequence[str], context: TrainContext, days: float) -> RankingFeatures:
    """Features with the counts of these events; without timestamps all events are recent."""
    recent = counts_in_window(context, days if context.clock == "ms" else 0.0)
    popularity = torch.from_numpy(context.events.weighted_popularity.copy())
    return RankingFeatures(
        tuple(nominators), popularity, torch.from_numpy(recent.copy()), context.category_lists
    )
