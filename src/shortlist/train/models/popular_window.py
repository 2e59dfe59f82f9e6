"""Events of the last days, counted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.models.counts.popular_window import PopularWindow
from shortlist.nominate import ModelNominator
from shortlist.progress import Progress, silent
from shortlist.train.context import DAY, TrainContext
from shortlist.train.models.trainer import ModelTrainer, Watch, unwatched

WAYS = ("auto", "days", "share")


@dataclass(frozen=True)
class PopularWindowTrainer(ModelTrainer):
    """Counts events of the last `days` before the last event, or the last `share` of all events.

    `by` says which of both; "auto" means days, and in a pipeline the share where the log knows only the order of
    events. With days = 0 the window is all time.
    """

    days: float = 30.0
    share: float = 0.1
    by: str = "auto"

    def __post_init__(self) -> None:
        if self.by not in WAYS or not 0 < self.share <= 1 or not self.days >= 0:
            raise ConfigError(
                f"popular-in-window: expected by of {', '.join(WAYS)}, 0 < share <= 1 and days from 0, "
                f"got {self.by!r}, {self.share} and {self.days}"
            )

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> PopularWindow:
        late = self._by_share(events) if self.by == "share" else self._by_days(events)
        lately = np.bincount(events.items[late], minlength=events.n_items)
        progress("popular in window", 1, 1)
        return PopularWindow.of(torch.from_numpy(lately), torch.from_numpy(events.popularity.copy()))

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> ModelNominator:
        model = self.clocked(context.clock).learn(context.events, progress=context.progress)
        return ModelNominator(model, **settings)

    def clocked(self, clock: str) -> "PopularWindowTrainer":
        """The same for a log with this clock, "ms" or "order"."""
        if clock == "order" and self.by == "days":
            raise ConfigError(
                f"popular-in-window: a window of {self.days:g} days needs times, and this log knows only the order "
                "of events; say by = 'share'"
            )
        return replace(self, by="share" if clock == "order" else "days") if self.by == "auto" else self

    def _by_days(self, events: Interactions) -> NDArray[np.bool_]:
        if not len(events) or not self.days:
            return np.ones(len(events), bool)
        late: NDArray[np.bool_] = events.times > events.times.max() - self.days * DAY
        return late

    def _by_share(self, events: Interactions) -> NDArray[np.bool_]:
        """Events from the time on before which all but the share lies; those of one time stay together."""
        if not len(events):
            return np.ones(0, bool)
        at = len(events) - max(round(self.share * len(events)), 1)
        first = np.partition(events.times, at)[at]
        late: NDArray[np.bool_] = events.times >= first
        return late
