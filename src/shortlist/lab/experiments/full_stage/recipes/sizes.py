"""Sizes of the recipes, and the funnels whose logs they are trained from."""

from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.simulate.full_stage.logged import SimulationSettings

ACCURATE = (
    2.0,
    1.5,
    1.0,
    0.5,
)  # error of each stage in logits of the utility, as `shortlist simulate` has it
INACCURATE = (4.0, 4.0, 4.0, 4.0)


@dataclass(frozen=True)
class RecipeSize:
    """A world, its requests, and the budget of every training."""

    shape: str  # of the world short-video
    requests: int  # of one round, and to train rankers on
    wide: tuple[int, ...]  # capacities of retrieval, pre-rank, rank and re-rank
    tight: tuple[int, ...]
    epochs: int  # of matrix factorisation
    ranker_epochs: int
    tree_epochs: int
    width: int = 32  # of matrix factorisation
    ranker_width: int = 16
    tree_width: int = 24
    days: float = 3.0  # of one round


RECIPE_SIZES: Mapping[str, RecipeSize] = {
    "tiny": RecipeSize("tiny", 150, (80, 30, 12, 6), (30, 20, 12, 6), 1, 1, 1, 8, 8, 8, days=0.2),
    "small": RecipeSize("small", 2500, (300, 60, 20, 6), (60, 30, 15, 6), 12, 4, 4),
    "full": RecipeSize("full", 20_000, (1000, 200, 50, 6), (200, 100, 50, 6), 20, 8, 8, 64, 32, 32),
}


@dataclass(frozen=True)
class Setup:
    """The funnel that writes the first log."""

    name: str
    wide: bool
    noise: tuple[float, ...]

    def settings(self, size: RecipeSize) -> SimulationSettings:
        """The simulation of one round."""
        capacities = size.wide if self.wide else size.tight
        return SimulationSettings(
            requests=size.requests, days=size.days, capacities=capacities, noise=self.noise
        )


SETUPS = (
    Setup("wide", True, ACCURATE),
    Setup("tight", False, ACCURATE),
    Setup("wide, inaccurate log", True, INACCURATE),
)
