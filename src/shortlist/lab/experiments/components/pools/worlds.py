"""The worlds of the pool experiment by profile."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments.components.pools.data import SeedTables, Sizes, documents, simulated
from shortlist.lab.experiments.components.pools.points import EURLEX, Grid, small_star, star
from shortlist.lab.experiments.components.pools.scoring import BEST_KNOWN
from shortlist.lab.experiments.components.pools.training import Schedule
from shortlist.simulate.labels import Eurlex, read_eurlex

FEW_LABELS = 16  # of documents in quick runs


@dataclass(eq=False)
class Fig5World:
    """A world of the experiment under a profile; tables are made when they are needed and kept."""

    name: str
    profile: str
    data: Path | None
    seeds: tuple[int, ...]
    device: torch.device
    _tables: dict[tuple[float, tuple[int, ...]], SeedTables] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.profile not in ("quick", "full"):
            raise ConfigError(f"components-fig5: expected the profile quick or full, got {self.profile!r}")
        if self.name == EURLEX and self.profile == "full" and self.data is None:
            raise ConfigError(
                "components-fig5-eurlex: the full profile needs --data, a folder that holds eurlex-4k"
            )

    @property
    def quick(self) -> bool:
        return self.profile == "quick"

    @property
    def grid(self) -> Grid:
        return small_star(self.name) if self.quick else star(self.name)

    @property
    def sizes(self) -> Sizes:
        return Sizes.small() if self.quick else Sizes()

    @property
    def schedule(self) -> Schedule:
        if self.quick:
            return Schedule(steps=30, evaluate_every=10, batch=100, rates=(1e-2,))
        return Schedule()

    def tables(self, kappa: float, seeds: tuple[int, ...]) -> SeedTables:
        """The rows of some seeds; documents in quick runs without data are simulated."""
        known = self._tables.get((kappa, seeds))
        if known is None:
            self._tables = {}  # a world at a time: those of other kappas are not needed again
            if self.documents:
                known = documents(self._eurlex, seeds, self.device)
            else:
                known = simulated(self.sizes, kappa, seeds, self.device)
            self._tables[kappa, seeds] = known
        return known

    @cached_property
    def _eurlex(self) -> Eurlex:
        assert self.data is not None
        if self.quick:
            return read_eurlex(self.data, FEW_LABELS, width=self.sizes.width)
        return read_eurlex(self.data, self.sizes.arms, width=self.sizes.width)

    @property
    def documents(self) -> bool:
        """Whether rows are published documents."""
        return self.name == EURLEX and self.data is not None

    @property
    def references(self) -> tuple[str, ...]:
        """Lists that need no training."""
        return ("popularity", "ceiling") if self.documents else ("popularity", "ceiling", BEST_KNOWN)

    def as_json(self) -> dict[str, Any]:
        """What the tables depend on."""
        rows = "published" if self.documents else list(self.sizes.rows)
        return {"world": self.name, "arms": self.sizes.arms, "width": self.sizes.width, "rows": rows}
