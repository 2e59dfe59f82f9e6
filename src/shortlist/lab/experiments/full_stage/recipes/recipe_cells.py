"""Cells of the recipes: one arm in one set-up with one seed, trained and measured in one round or two."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from shortlist.data import Dataset
from shortlist.lab.experiments.cache import empty
from shortlist.lab.experiments.full_stage.recipes.logs import (
    add_log,
    first_log,
    known_world,
    logging_funnel,
    without_history,
)
from shortlist.lab.experiments.full_stage.recipes.measures import measured
from shortlist.lab.experiments.full_stage.recipes.recipe_arms import ARMS, EVENTS, LIKES, RecipeArm, recipe
from shortlist.lab.experiments.full_stage.recipes.sizes import RECIPE_SIZES, SETUPS, RecipeSize, Setup
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.pipeline.offline import offline
from shortlist.simulate.full_stage.logged import bundle_queries
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.logged.targets import with_positives
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.pipeline import train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.refit import all_events
from shortlist.train.registry import TRAINERS

ROUNDS, SECONDS = "rounds", "training seconds"


@dataclass(frozen=True)
class RecipeCell:
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
        arm = asdict(ARMS[self.arm])
        return {"size": asdict(self.size), "setup": asdict(self.served_by), "arm": arm}

    @property
    def size(self) -> RecipeSize:
        return RECIPE_SIZES[self.world]

    @property
    def served_by(self) -> Setup:
        return next(one for one in SETUPS if one.name == self.setup)


def run_recipe_cell(cell: RecipeCell, folder: Path, device: str = "auto") -> tuple[Tensor, dict[str, Any]]:
    """The figures of every round."""
    log = first_log(cell.size, cell.served_by, cell.seed, folder)
    began = time.perf_counter()
    rounds = list(_rounds(cell, log, device)) if ARMS[cell.arm].trained else [_not_trained(cell)]
    return empty(), {ROUNDS: rounds, "seconds": time.perf_counter() - began}


def _not_trained(cell: RecipeCell) -> dict[str, float]:
    settings, size = cell.served_by.settings(cell.size), cell.size
    world = known_world(size.shape, settings.history, cell.seed)
    return measured(world, settings, logging_funnel(size, cell.served_by, cell.seed), without_history) | {
        SECONDS: 0.0
    }


def _rounds(cell: RecipeCell, log: Path, device: str) -> Iterator[dict[str, float]]:
    """Train from a log, measure, and train again from the log of what was trained."""
    arm, settings = ARMS[cell.arm], cell.served_by.settings(cell.size)
    world = known_world(cell.size.shape, settings.history, cell.seed)
    chosen = recipe(arm, cell.size, settings.capacities, device)
    with TemporaryDirectory(prefix="shortlist-recipes-") as folder:
        for number in range(arm.rounds):
            began = time.perf_counter()
            served = trained(chosen, world.data, _reads(arm, number), log, cell.seed + number)
            seconds = time.perf_counter() - began
            yield measured(world, settings, offline(served.pipeline), bundle_queries(served)) | {
                SECONDS: seconds
            }
            if number + 1 < arm.rounds:
                log = _next_log(log if arm.all_logs else None, Path(folder) / str(number))
                add_log(log, world, settings, served)


def _reads(arm: RecipeArm, number: int) -> str:
    """What a round is trained from: after the first one, what users liked is among the events."""
    return LIKES if arm.reads == EVENTS and number else arm.reads


def _next_log(before: Path | None, root: Path) -> Path:
    """An empty folder, or a copy of the log so far."""
    if before is None:
        root.mkdir()
    else:
        shutil.copytree(before, root)
    return root


def trained(chosen: Recipe, data: Dataset, reads: str, root: Path, seed: int) -> Recommender:
    """A recipe trained on all events, with the log as the arm reads it; no request is held out."""
    log = None if reads == EVENTS else read_log(chosen, data, root)
    if reads == LIKES and log is not None:
        data, log = replace(data, events=with_positives(data.events, log)), None
    return train_pipeline(chosen, data, seed, all_events(data, data.split_settings), log=log).recommender


def read_log(chosen: Recipe, data: Dataset, root: Path) -> TrainingLog:
    """The log as `shortlist train --from-log` reads it."""
    work = PipelineTrainer.of(chosen, TYPES, TRAINERS)
    return read_training_log(root, data, work.step_names, work.config.log_requests, scores=work.reads_scores)
