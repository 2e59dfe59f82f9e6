"""Cells of the closed loop: all rounds of one arm in one set-up, with one seed."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.lab.experiments.cache import empty
from shortlist.lab.experiments.full_stage.closed_loop.loop_arms import make_retrain
from shortlist.lab.experiments.full_stage.closed_loop.sizes import LOOP_SIZES, SETUPS, LoopSize
from shortlist.simulate.full_stage.closed_loop import LoopWorld, closed_loop, loop_arrays
from shortlist.simulate.full_stage.closed_loop.loop import RETRIEVAL
from shortlist.simulate.full_stage.closed_loop.measures import COVERAGE, UTILITY
from shortlist.simulate.full_stage.make_short_video import make_short_video
from shortlist.train.loop.device import device_of

METRICS, ROUNDS = "metrics", "rounds"
TOTAL, AFTER, DROP, RECOVERY, COVERAGE_CHANGE = (
    "total utility",
    "utility after the change",
    "drop",
    "rounds to recover",
    "coverage change",
)
RECOVERED = 0.95  # of the utility before the change


@dataclass(frozen=True)
class LoopCell:
    """One arm in one set-up, with one seed."""

    world: str
    setup: str
    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.world}/{self.setup}/{self.arm}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answer."""
        return {"size": asdict(LOOP_SIZES[self.world]), "setup": asdict(_setup(self.setup)), "arm": self.arm}


def run_loop_cell(cell: LoopCell, folder: Path, device: str = "auto") -> tuple[Tensor, dict[str, Any]]:
    """The figures of every round, and their summary."""
    size = LOOP_SIZES[cell.world]
    world = _world(cell.world, cell.seed, folder, device)
    began = time.perf_counter()
    settings = _setup(cell.setup).settings(size)
    retrain = make_retrain(cell.arm, size, cell.seed)
    with TemporaryDirectory(prefix="shortlist-loop-") as log:
        rounds = closed_loop(world, settings, {RETRIEVAL: retrain}, Path(log))
    figures = [dict(one.figures) for one in rounds]
    seconds = time.perf_counter() - began
    return empty(), {METRICS: summary(figures, size.drift_round), ROUNDS: figures, "seconds": seconds}


def summary(rounds: Sequence[Mapping[str, float]], drift_round: int) -> dict[str, float]:
    """Means over the rounds before the change, and what the change did."""
    before, after = rounds[:drift_round], rounds[drift_round:]
    means = {name: float(np.mean([one[name] for one in before])) for name in before[0]}
    utilities = [one[UTILITY] for one in after]
    recovered = [number for number, one in enumerate(utilities) if one >= RECOVERED * means[UTILITY]]
    return means | {
        TOTAL: float(sum(one[UTILITY] for one in rounds)),
        AFTER: float(np.mean(utilities)),
        DROP: means[UTILITY] - utilities[0],
        RECOVERY: float(recovered[0] if recovered else len(after)),
        COVERAGE_CHANGE: before[-1][COVERAGE] - before[0][COVERAGE],
    }


@lru_cache(maxsize=1)
def _world(name: str, seed: int, folder: Path, device: str) -> LoopWorld:
    """The world of a seed: built once, other cells and processes read its arrays from `folder`."""
    size = LOOP_SIZES[name]
    path = folder / f"loop-{name}-{seed}-{_digest(size)}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{np.random.default_rng().integers(1 << 62):x}")
        save_file(
            loop_arrays(make_short_video(size.shape, seed, size.watch), size.stages, seed, device), draft
        )
        draft.replace(path)
    return LoopWorld.of(load_file(path), seed, device_of(device))


def _digest(size: LoopSize) -> str:
    """Names what decides the arrays of a world."""
    plain = {"shape": size.shape, "watch": size.watch, "stages": size.stages}
    return hashlib.sha256(json.dumps(as_json(plain), sort_keys=True).encode()).hexdigest()[:12]


def _setup(name: str) -> Any:
    return next(one for one in SETUPS if one.name == name)
