"""A baseline without training: the items with the most events in a window before the end of the log."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.models.model import Model, ModelConfig
from shortlist.progress import Progress, silent
from shortlist.settings import setting
from shortlist.train.context import DAY
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback

WINDOWS = ("auto", "days", "share")


class PopularWindow(Model):
    """Items ordered by their events in the window, ties by their events of all time.

    Scores are ranks counted from the end; items with equal counts share a rank. Ranks are exact in float32 where large
    counts are not.
    """

    ranks: Tensor  # [N]

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.register_buffer("ranks", torch.zeros(config.n_items))

    @classmethod
    def of(cls, in_window: Tensor, all_time: Tensor) -> Self:
        """From the number of events [N] in the window and of all time."""
        model = cls(ModelConfig(len(in_window)))
        if len(in_window):
            both = torch.stack([in_window, all_time], dim=1)
            model.ranks = torch.unique(both, dim=0, return_inverse=True)[1].float()
        return model.eval()

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        return self.ranks.repeat(len(history), 1)


@dataclass(frozen=True)
class PopularWindowTrainer(ModelTrainer):
    """Counts the events of the last `days`, or the last `share` of all events.

    `window` chooses between the two; "auto" means days, and the share where a log has only the order of its events.
    With days = 0 the window is all time.
    """

    model: type[Any] = field(default=PopularWindow, kw_only=True)
    days: float = setting(30.0, "Length of the window in days; 0 = all time.", least=0)
    share: float = setting(0.1, "Length of the window as a share of all events.", least=1e-9, most=1)
    window: str = setting("auto", "How the length of the window is measured.", choices=WINDOWS)

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> PopularWindow:
        inside = self._last_share(events) if self.window == "share" else self._last_days(events)
        in_window = np.bincount(events.items[inside], minlength=events.n_items)
        progress("popular in window", 1, 1)
        return PopularWindow.of(torch.from_numpy(in_window), torch.from_numpy(events.popularity.copy()))

    def for_clock(self, clock: str) -> "PopularWindowTrainer":
        """The same trainer for a log with this clock, "ms" or "order"."""
        if clock == "order" and self.window == "days":
            raise ConfigError(
                f"popular in window: a window of {self.days:g} days needs times, and this log has only the order of "
                "events; use window = 'share'"
            )
        if self.window != "auto":
            return self
        return replace(self, window="share" if clock == "order" else "days")

    def _last_days(self, events: Interactions) -> NDArray[np.bool_]:
        if not len(events) or not self.days:
            return np.ones(len(events), bool)
        return np.asarray(events.times > events.times.max() - self.days * DAY)

    def _last_share(self, events: Interactions) -> NDArray[np.bool_]:
        """The last share of the events; events at the same time are all in the window or all outside."""
        if not len(events):
            return np.ones(0, bool)
        at = len(events) - max(round(self.share * len(events)), 1)
        return np.asarray(events.times >= np.partition(events.times, at)[at])
