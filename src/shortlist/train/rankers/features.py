"""What rankers over features are told, counted from events and read from the catalogue."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shortlist.errors import ConfigError
from shortlist.stages.columns import Columns
from shortlist.stages.features import Features
from shortlist.stages.sheet import Sheet
from shortlist.train.context import TrainContext
from shortlist.train.models.counts import recent_counts


def learned_sheet(settings: Mapping[str, Any], context: TrainContext, days: float, what: str) -> Sheet:
    """The sheet of a ranker: the nominators and columns that its settings name, or all that there are."""
    met = context.events.popularity > 0
    columns = Columns.of(context.catalog, met, list(settings.get("columns", ())))
    return Sheet(counted(heard(settings, context, what), context, days), columns)


def renewed_sheet(sheet: Sheet, context: TrainContext, days: float) -> Sheet:
    """The same sheet with the counts of all events; as shares, they mean what they meant in the rehearsal."""
    return Sheet(counted(sheet.features.nominators, context, days), sheet.columns)


def heard(settings: Mapping[str, Any], context: TrainContext, what: str) -> list[str]:
    """The nominators whose word counts: those the settings name, or all."""
    said = [name[:-5] for one in context.rounds[:1] for name in one.found.columns if name.endswith(".rank")]
    nominators = list(settings.get("nominators", said))
    for name in nominators:
        if name not in said:
            raise ConfigError(f"{what}: nominators names {name!r}; expected some of {', '.join(said)}")
    return nominators


def counted(nominators: Sequence[str], context: TrainContext, days: float) -> Features:
    """Features with the counts of these events; without times, lately is always."""
    lately = recent_counts(context, days if context.clock == "ms" else 0.0)
    popularity = torch.from_numpy(context.events.popularity.copy())
    return Features(tuple(nominators), popularity, torch.from_numpy(lately.copy()), context.categories)


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stage that are not those of its sheet."""
    return {name: one for name, one in settings.items() if name not in Sheet.settings_of}
