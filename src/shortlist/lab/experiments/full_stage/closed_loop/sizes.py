"""Sizes of the closed loops, and the set-ups in which arms are compared."""

from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.lab.experiments.full_stage.sizes import Budget
from shortlist.simulate.full_stage.closed_loop import LoopSettings
from shortlist.simulate.full_stage.make_short_video import PAPER_SHARE
from shortlist.simulate.full_stage.short_video import WatchModel
from shortlist.simulate.full_stage.stage_models import StageModelConfig

MISALIGNED = -2.0  # a boost of short videos: the label asks less of long ones


@dataclass(frozen=True)
class LoopSize:
    """A world with its capacities, its rounds and the budget of every training."""

    shape: str  # of `make_short_video`
    stages: StageModelConfig
    wide: tuple[int, ...]
    tight: tuple[int, ...]
    budget: Budget
    rounds: int
    drift_round: int
    warm: int = 4
    window: int = 4
    requests: int = 0  # per round; 0 = one per user
    passes: int = 16  # random partitions of the catalogue from which oracles count selections
    watch: WatchModel = PAPER_SHARE


LOOP_SIZES: Mapping[str, LoopSize] = {
    "tiny": LoopSize(
        "tiny",
        StageModelConfig((16,), (16,), 8, 1e-2, 512, 4),
        (100, 40, 15, 6),
        (40, 20, 12, 6),
        Budget(2, 2, 128, (0.4,), (1e-2,), 16),
        rounds=3,
        drift_round=2,
        warm=1,
        window=2,
        passes=4,
    ),
    "small": LoopSize(
        "small",
        StageModelConfig((64, 32), (128, 64), 16, 2e-3, 2048, 4),
        (300, 60, 15, 6),
        (60, 30, 15, 6),
        Budget(20, 20, 512, (0.2, 0.4, 0.8), (1e-2,)),
        rounds=12,
        drift_round=6,
    ),
    "full": LoopSize(
        "full",
        StageModelConfig(max_cells=3_000_000),
        (1000, 200, 50, 6),
        (200, 100, 50, 6),
        Budget(20, 20, 1024, (0.2, 0.4, 0.8), (1e-2,)),
        rounds=10,
        drift_round=5,
        requests=706,
    ),
}


@dataclass(frozen=True)
class Setup:
    """One funnel in which all arms are compared, with what changes in its middle."""

    name: str
    wide: bool
    channels: int
    beta: float
    drift: str

    def settings(self, size: LoopSize) -> LoopSettings:
        """The settings of the loop in a world."""
        return LoopSettings(
            size.wide if self.wide else size.tight,
            self.channels,
            beta=self.beta,
            requests=size.requests,
            rounds=size.rounds,
            warm=size.warm,
            window=size.window,
            drift=self.drift,
            drift_round=size.drift_round,
            drift_beta=MISALIGNED,
        )


SETUPS = (
    Setup("wide", True, 1, 0.0, "beta"),
    Setup("tight", False, 1, 0.0, "beta"),
    Setup("wide, 5 channels", True, 5, 0.0, "seed"),
    Setup("tight, 5 channels", False, 5, 0.0, "beta"),
    Setup("wide, misaligned", True, 1, MISALIGNED, "label"),
    Setup("tight, misaligned", False, 1, MISALIGNED, "label"),
)
