"""A cell of the two-time-scale tables: one system at one place with one seed."""

from dataclasses import dataclass
from typing import Any

from shortlist.lab.experiments.trees.trial import settings_without_device
from shortlist.lab.experiments.two_time_scale.cells.places import Place
from shortlist.lab.experiments.two_time_scale.cells.systems import System, trainer_of

TEST, TUNING, CURVE, THRESHOLD = "", "tuning", "curve", "threshold"  # what is measured


@dataclass(frozen=True)
class StateCell:
    """A system that is trained and measured: on test events, on validation events for tuning, after every epoch, or
    for its threshold.
    """

    place: Place
    system: System
    seed: int
    rate: float | None = None  # of tuning
    kind: str = TEST

    def __str__(self) -> str:
        kind = f"/{self.kind}" if self.kind else ""
        rate = f" {self.rate:g}" if self.kind == TUNING else ""
        return f"{self.place}/{self.system.name}{kind}{rate}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answer."""
        refit = {"refit": True} if self.system.refit else {}
        known = {"place": self.place.settings, "system": {**self.system.settings, **refit}}
        if not self.system.rates:
            return known
        training = settings_without_device(trainer_of(self.system, self.place, self.rate))
        if not self.system.has_first_stage:
            return {**known, "training": training}
        own = {name: one for name, one in training.items() if not name.startswith("first_")}
        first = settings_without_device(trainer_of(self.system.first, self.place))
        return {**known, "training": own, "first stage": first}
