"""Cells of the two-time-scale tables: one system at one place with one seed, trained and measured on test events."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.evaluate.online.ranks import N_NEG
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.experiments.two_time_scale.cells.curve_cell import run_curve_cell
from shortlist.lab.experiments.two_time_scale.cells.measured import (
    UserSums,
    activity,
    curves,
    new_user_gains,
    segment_means,
)
from shortlist.lab.experiments.two_time_scale.cells.paths import step_paths
from shortlist.lab.experiments.two_time_scale.cells.places import Place, place_data
from shortlist.lab.experiments.two_time_scale.cells.state_cell import (
    CURVE,
    TEST,
    THRESHOLD,
    TUNING,
    StateCell,
)
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    CCF,
    POPULAR,
    SYSTEMS,
    TWO,
    rate_of,
    tuned_at,
)
from shortlist.lab.experiments.two_time_scale.cells.threshold_cell import run_threshold_cell
from shortlist.lab.experiments.two_time_scale.cells.train_cell import (
    ranks_of,
    steps_since_base,
    train_cell,
    validated,
)
from shortlist.lab.result import Claim, Row, claim, row
from shortlist.models.state_model import StateModel
from shortlist.progress import Progress, silent

DRAWN = 20_000  # events with drawn negatives
TUNING_SEED = 0
BY_RATE = "validation mrr by learning rate"


@dataclass(frozen=True)
class Plan:
    """The cells of a table."""

    systems: Mapping[Place, Sequence[str]]
    seeds: Sequence[int]
    kind: str = TEST

    def cells(self) -> list[StateCell]:
        """All cells; the systems of one place and seed follow each other, so that they share data and first stage."""
        return [
            StateCell(place, SYSTEMS[name], seed, kind=self.kind)
            for place, names in self.systems.items()
            for seed in self.seeds
            for name in names
        ]

    def trials(self) -> list[StateCell]:
        """The cells that choose learning rates."""
        return [
            StateCell(tuned_at(place), SYSTEMS[name], TUNING_SEED, rate, TUNING)
            for place, names in self.systems.items()
            for name in dict.fromkeys(SYSTEMS[one].tuned_as for one in names)
            for rate in SYSTEMS[name].rates
        ]


def run_state_cell(
    cell: StateCell, folder: Path | None, device: str = "auto"
) -> tuple[Tensor, dict[str, Any]]:
    """Sums of all metrics by user, and facts of the training."""
    if cell.kind == CURVE:
        return run_curve_cell(cell, folder, device)
    if cell.kind == THRESHOLD:
        return run_threshold_cell(cell, folder, device)
    began = time.perf_counter()
    data = place_data(cell.place, cell.seed, folder, device)
    ready = time.perf_counter()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trained = train_cell(cell.place, cell.system, cell.seed, cell.rate, folder, device)
    done = time.perf_counter()
    refit = cell.system.refit
    facts = {
        **trained.facts,
        "validation": validated(trained.model, data, refit),
        "data seconds": ready - began,
    }
    test = data.test
    found = ranks_of(trained.model, test, refit, N_NEG, DRAWN)
    steps = (
        None if refit else steps_since_base(trained.model, data.split, test.event_numbers, test.known_users)
    )
    facts |= {"curves": curves(found, test, steps), "gains": new_user_gains(found, test)}
    facts["cell seconds"] = done - ready
    if cell.system.model == POPULAR:
        facts["activity"] = activity(data.split.train_counts)
    if cell.place.world is None and not refit:
        block = replace(test, block=True)
        facts["block"] = segment_means(UserSums.of(ranks_of(trained.model, block), block), data.threshold)
    if isinstance(trained.model, StateModel):
        paths = step_paths(trained.model, data.split.events)
        facts["paths"] = {**paths, **step_paths(trained.model, data.split.events, as_new=True)}
    return UserSums.of(found, test).tensor(), {**facts, "evaluation seconds": time.perf_counter() - done}


def filled(
    plan: Plan,
    cache_file: Path | None,
    only: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress = silent,
    data: Path | None = None,
    device: str = "auto",
) -> tuple[AnswerCache, list[StateCell], dict[str, str]]:
    """The cache with the chosen cells, all cells of the plan, and why some are missing.

    Cells of tuning are run only where `only` names them; without them a system has its usual learning rate. The one
    with the chosen rate is the cell of its seed.
    """
    cache = AnswerCache.open(cache_file)
    take_trials(plan, cache)
    run = partial(run_state_cell, folder=data, device=device)
    tuning = any(TUNING in pattern for pattern in only)
    cells = plan.trials() if tuning else plan.cells()
    failed = run_cells(
        chosen_cells(cells, only), cache, run, lambda cell: cell.settings, jobs, progress, shared
    )
    every = plan.cells()
    missing = {str(cell): "not run" for cell in every if not cache.has(str(cell))}
    return cache, every, {**missing, **failed}


def take_trials(plan: Plan, cache: AnswerCache) -> None:
    """Answer missing cells with the trials of the same system, seed and settings."""
    for cell in plan.cells():
        trial = replace(cell, rate=rate_of(cell.system, cell.place), kind=TUNING)
        if cell.kind == TEST and not cache.has(str(cell)) and cache.has(str(trial), cell.settings):
            cache.put(str(cell), cache.tensors[str(trial)].clone(), cache.facts[str(trial)])


def shared(cell: StateCell) -> tuple[object, ...]:
    """Cells with the same data, and those with the same first stage: one process runs them one after the other."""
    return cell.place, cell.seed, cell.system.model in (CCF, TWO)


def tuning_rows(plan: Plan, cache: AnswerCache) -> list[Row]:
    """The metric on validation events by learning rate, of the trials that were run."""
    return [
        row(
            f"{cell.system.name} on {cell.place}",
            BY_RATE,
            [cache.facts[str(cell)]["validation"]],
            x=cell.rate,
        )
        for cell in plan.trials()
        if cache.has(str(cell))
    ]


def rate_claims(plan: Plan, cache: AnswerCache) -> Iterator[Claim]:
    """The learning rates of the tables are the best ones of the trials, where all trials of a system were run."""
    trials: dict[tuple[Place, str], list[StateCell]] = {}
    for cell in plan.trials():
        trials.setdefault((cell.place, cell.system.name), []).append(cell)
    for (place, name), cells in trials.items():
        if not all(cache.has(str(cell)) for cell in cells):
            continue
        values = {cell.rate: float(cache.facts[str(cell)]["validation"]) for cell in cells}
        best = max(values, key=lambda rate: values[rate])
        used = rate_of(SYSTEMS[name], place)
        note = "validation mrr by learning rate: " + ", ".join(
            f"{at:g} {one:.4f}" for at, one in values.items()
        )
        yield claim(
            f"learning rate of {name} is the best one tried, on {place}", "protocol", used == best, used, note
        )
