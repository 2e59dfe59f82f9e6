"""Cells of the full-stage tables: one arm of one stage, trained and measured in the world of one seed."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.lab.experiments.full_stage.arms import ORACLE, RANDOM, Arm
from shortlist.lab.experiments.full_stage.grids import Grids, grids_of
from shortlist.lab.experiments.full_stage.sizes import MOVIELENS, SIZES
from shortlist.lab.experiments.full_stage.stage_data import StageData
from shortlist.lab.experiments.full_stage.train_arm import train_arm
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.progress import Progress, silent
from shortlist.train.loop.device import device_of

METRICS = "metrics"
KEPT = 6  # seeds whose data a process keeps: about 300 MB each at full size


@dataclass(frozen=True, order=True)
class Place:
    """Where arms are compared: a world, how its requests are split, and a stage."""

    world: str
    protocol: str
    stage: str

    def __str__(self) -> str:
        return f"{self.world}/{self.protocol}/{self.stage}"


@dataclass(frozen=True)
class StageCell:
    """One arm at one place, with one seed."""

    place: Place
    arm: Arm
    seed: int

    def __str__(self) -> str:
        return f"{self.place}/{self.arm.name}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answer."""
        return {"size": asdict(SIZES[self.place.world]), "arm": asdict(self.arm)}


def world_of(profile: str, name: str, full: str = "full") -> str:
    """The world of a profile."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"{name}: expected the profile quick or full, got {profile!r}")
    return "tiny" if profile == "quick" else full


def worlds_of(world: str, data: Path | None) -> list[str]:
    """The world of a profile, and beside the full one World B where `data` holds its ratings."""
    has_ratings = data is not None and (data / SIZES[MOVIELENS].shape).exists()
    return [world, MOVIELENS] if world == "full" and has_ratings else [world]


def filled(
    arms: Mapping[Place, Sequence[Arm]],
    seeds: Sequence[int],
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress = silent,
    data: Path | None = None,
    device: str = "auto",
) -> tuple[AnswerCache, list[StageCell], dict[str, str]]:
    """The cache with the chosen cells, all cells of the table, and why some are missing.

    Seeds change fastest, so that the first processes build the grids of different seeds.
    """
    cells = [StageCell(place, arm, seed) for place, own in arms.items() for arm in own for seed in seeds]
    cache = AnswerCache.open(cache_file)
    with grids_folder(cache_file) as folder:
        run = partial(run_stage_cell, folder=folder, data=data, device=device)
        failed = run_cells(chosen_cells(cells, only), cache, run, lambda cell: cell.settings, jobs, progress)
    missing = {str(cell): "not run" for cell in cells if not cache.has(str(cell))}
    return cache, cells, {**missing, **failed}


def run_stage_cell(
    cell: StageCell, folder: Path, data: Path | None = None, device: str = "auto"
) -> tuple[Tensor, dict[str, Any]]:
    """The means of all columns as facts, with the settings that validation chose."""
    began = time.perf_counter()
    stage = known_data(cell.place, cell.seed, folder, device, data)
    ready = time.perf_counter()
    found = _measured(cell, stage)
    seconds = {"seconds": time.perf_counter() - ready, "data seconds": ready - began}
    return empty(), {**found, **seconds, "stage AUC": [float(one) for one in stage.grids.auc]}


def _measured(cell: StageCell, data: StageData) -> dict[str, Any]:
    if not cell.arm.trained:
        return {METRICS: {RANDOM: data.random, ORACLE: data.oracle}[cell.arm.name]()}
    best = train_arm(cell.arm, data, SIZES[cell.place.world].budget, cell.seed)
    chosen = {"temperature": best.temperature, "rate": best.rate, "epoch": best.epoch}
    return {
        METRICS: data.measured(best.scores),
        "chosen": chosen,
        "validation": best.values,
        "steps": best.steps,
    }


@lru_cache(maxsize=KEPT)
def known_data(place: Place, seed: int, folder: Path, device: str, data: Path | None) -> StageData:
    """What a cell is trained on; cells of the same place and seed share it."""
    grids = known_grids(place.world, seed, folder, device, data)
    return StageData.of(grids, SIZES[place.world], place.stage, place.protocol, seed, device_of(device))


@lru_cache(maxsize=KEPT)
def known_grids(world: str, seed: int, folder: Path, device: str, data: Path | None) -> Grids:
    """The grids of `grids_of`, read once by each process."""
    return grids_of(world, seed, folder, device, data)


@contextmanager
def grids_folder(cache_file: Path | None) -> Iterator[Path]:
    """Beside the cache, so that a resumed run does not train the stage models again; else temporary."""
    if cache_file is not None:
        yield cache_file.with_name(f"{cache_file.stem}-grids")
        return
    with TemporaryDirectory(prefix="shortlist-") as folder:
        yield Path(folder)
