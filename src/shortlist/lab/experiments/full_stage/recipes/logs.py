"""The world of a seed and its logs: requests that a funnel served, joined with their feedback."""

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from numpy.typing import NDArray

from shortlist.artifact.as_json import as_json
from shortlist.data import Query
from shortlist.feedback.join import join_feedback
from shortlist.grammar import Pipeline
from shortlist.lab.experiments.full_stage.recipes.sizes import RecipeSize, Setup
from shortlist.pipeline import Recommender
from shortlist.pipeline.offline import offline
from shortlist.simulate.full_stage.logged import (
    ServedWorld,
    SimulationSettings,
    bundle_queries,
    served_world,
    simulate_requests,
    world_pipeline,
)
from shortlist.simulate.full_stage.logged.world import DAY_MS

KEPT = 2  # worlds that a process keeps
STEP = 1_000_003  # between the seeds of requests and feedback of two rounds


@lru_cache(maxsize=KEPT)
def known_world(shape: str, history: int, seed: int) -> ServedWorld:
    """The world of a seed; the events before its first request are the data set."""
    return served_world("short-video", SimulationSettings(history=history), None, shape, seed)


@lru_cache(maxsize=KEPT)
def logging_funnel(size: RecipeSize, setup: Setup, seed: int) -> Pipeline:
    """The funnel that writes the first log."""
    settings = setup.settings(size)
    return world_pipeline(known_world(size.shape, settings.history, seed), settings)


def first_log(size: RecipeSize, setup: Setup, seed: int, folder: Path) -> Path:
    """The log of the logging funnel with labels: written once, other cells and processes read it from `folder`."""
    path = folder / f"log-{size.shape}-{seed}-{_digest(size, setup)}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=f".{path.name}-", dir=folder))
        settings = setup.settings(size)
        simulate_requests(
            known_world(size.shape, settings.history, seed),
            logging_funnel(size, setup, seed),
            draft,
            settings,
        )
        join_feedback(draft)
        with suppress(OSError):  # another process was first
            draft.rename(path)
        shutil.rmtree(draft, ignore_errors=True)
    return path


def add_log(root: Path, world: ServedWorld, settings: SimulationSettings, served: Recommender) -> None:
    """Append to the log in `root` the next days, which a trained recommender serves, and make all labels.

    Users are drawn anew, and so is their feedback: what was liked before is liked with the same probability.
    """
    later = replace(
        world, seed=world.seed + STEP, start_ms=world.start_ms + int(np.ceil(settings.days)) * DAY_MS
    )
    simulate_requests(
        later,
        offline(served.pipeline),
        root,
        settings,
        version=served.about.version,
        queries=bundle_queries(served),
    )
    join_feedback(root)


def without_history(users: NDArray[np.int64], seeds: NDArray[np.int64]) -> Query:
    """Requests of the logging funnel, which reads only their users and seeds."""
    return Query.of([[] for _ in users], users.tolist(), [0] * len(users), seeds.tolist())


def _digest(size: RecipeSize, setup: Setup) -> str:
    """Names what decides the requests of a log."""
    plain = json.dumps(as_json(setup.settings(size)), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:12]
