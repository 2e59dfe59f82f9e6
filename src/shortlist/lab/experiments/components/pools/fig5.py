"""Learned against random item pools, offline on rows with several labels."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortlist.lab.experiments.cache import ORIGIN, AnswerCache
from shortlist.lab.experiments.components.pools.claims import best_systems, claims_of
from shortlist.lab.experiments.components.pools.methods import (
    BY_ERROR,
    CORE,
    DISTILLED,
    ENSEMBLE,
    FULL_WIDE,
    MITIGATIONS,
    MOE_ITEM,
    MOE_USER_ITEM,
    RANDOM,
    SINGLE,
    SQUARES_ITEM,
    Method,
)
from shortlist.lab.experiments.components.pools.points import POWER_LAW, Grid, Point
from shortlist.lab.experiments.components.pools.runs import BEFORE, METRICS, Outcome, Run
from shortlist.lab.experiments.components.pools.scoring import references
from shortlist.lab.experiments.components.pools.table import PRECISION, RECALL, Table
from shortlist.lab.experiments.components.pools.worlds import Fig5World
from shortlist.lab.result import Result, Row, commit, has_changes, machine, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.loop.device import device_of

FILES = {POWER_LAW: "components-fig5"}
DRAWN = (RANDOM, MOE_USER_ITEM, MOE_ITEM, DISTILLED, SINGLE, ENSEMBLE, SQUARES_ITEM, BY_ERROR, FULL_WIDE)
WITH_RECALL = (RANDOM, MOE_USER_ITEM, MOE_ITEM, SQUARES_ITEM, BY_ERROR)
AT_CENTRE = (PRECISION, RECALL, METRICS[2], METRICS[5])


def components_fig5(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = tuple(range(5)),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = POWER_LAW,
) -> Result:
    """Nominators with random or learned pools on examples of (row, label, whether it is true).

    A star of settings, not their full product: one at a time around c=1000 examples per arm, item vectors of width
    d_e=10, s=100 of 400 features and N=10 nominators; d_e and s once more at c=100, and c once more where nominators
    read the features of one block of latent factors each. Every system has the same steps, batches, learning rates and
    stop: the rate and the step with the highest precision@5 on validation rows are taken for each seed. Distilled
    systems have no more steps in total. Lists are the 5 labels with the highest mixture mean; lists of what
    nominators nominate are in the rows of the centre. A row without labels has precision and recall 0. Differences are
    paired over seeds, with intervals of the t-test.
    """
    began = start()
    device = device_of("auto")
    world = Fig5World(where, profile, data, tuple(seeds), device)
    cells = _Cells(world, AnswerCache.open(cache_file), progress)
    with _fast_on_gpu(device):
        table = cells.table()
    grid, schedule = world.grid, world.schedule
    assert components_fig5.__doc__ is not None
    text = components_fig5.__doc__.partition("\n\n")[2].split()
    note = " ".join([*text, best_systems(table, grid), cells.cache.origins])
    return result(
        FILES.get(where, f"components-fig5-{where}"),
        profile,
        seeds,
        began,
        _rows(table, grid, schedule.evaluate_every),
        claims_of(table, grid),
        x="value of the setting",
        note=note,
        settings={"world": world.as_json(), "training": asdict(schedule)},
    )


@dataclass(eq=False)
class _Cells:
    """Answers of every (point, system, seed), trained where the cache has none."""

    world: Fig5World
    cache: AnswerCache
    progress: Progress

    @cached_property
    def _origin(self) -> list[str]:
        return [machine(), commit() + (" with changes" if has_changes() else "")]

    def table(self) -> Table:
        grid = self.world.grid
        trained = [(at, one) for at in grid.points for one in self._methods(at)]
        # Tables of one world at a time, as many points as possible with each.
        trained.sort(key=lambda pair: -pair[0].kappa)
        values, facts = {}, {}
        for done, (point, method) in enumerate(trained):
            self.progress("systems", done, len(trained))
            for name in self._names(method):
                answers = [self._answer(point, method, name, seed) for seed in self.world.seeds]
                values[point, name] = np.stack([one.double().numpy() for one, _ in answers])
                facts[point, name] = [one for _, one in answers]
        self.progress("systems", len(trained), len(trained))
        return Table(values, facts)

    def _methods(self, point: Point) -> Sequence[Method | None]:
        grid = self.world.grid
        more = MITIGATIONS if point in grid.mitigated else ()
        return (*((None,) if point == grid.centre else ()), *CORE, *more)

    def _answer(
        self, point: Point, method: Method | None, name: str, seed: int
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """One answer; when it is missing, those of all seeds that lack it are trained together."""
        key, settings = f"{point}/{name}", self._settings(point, method)
        if not self.cache.has(f"{key}/{seed}", settings):
            missing = tuple(one for one in self.world.seeds if f"{key}/{one}" not in self.cache.tensors)
            made = AnswerCache()  # in memory, so that the file is written once
            for outcome in self._outcomes(point, method, missing):
                for own, values, facts in zip(missing, outcome.values, outcome.facts, strict=True):
                    made.put(
                        f"{point}/{outcome.name}/{own}", values, {**facts, ORIGIN: self._origin}, settings
                    )
            self.cache.merge([made])
        return self.cache.tensors[f"{key}/{seed}"], self.cache.facts[f"{key}/{seed}"]

    def _outcomes(self, point: Point, method: Method | None, seeds: tuple[int, ...]) -> list[Outcome]:
        tables = self.world.tables(point.kappa, seeds)
        if method is not None:
            return Run(method, point, tables, self.world.schedule).outcomes()
        blank = torch.zeros(len(seeds), len(METRICS) - 2)
        return [
            Outcome(name, torch.cat([one.cpu(), blank], 1), ({},) * len(seeds))
            for name, one in references(tables).items()
        ]

    def _names(self, method: Method | None) -> tuple[str, ...]:
        """The systems whose values come from one training."""
        if method is None:
            return self.world.references
        return (method.name, method.name + BEFORE) if method.distilled else (method.name,)

    def _settings(self, point: Point, method: Method | None) -> dict[str, Any]:
        """What decides an answer."""
        own = {} if method is None else {"method": method.as_json(), "training": asdict(self.world.schedule)}
        return {"point": point.as_json(), **self.world.as_json(), **own}


@contextmanager
def _fast_on_gpu(device: torch.device) -> Iterator[None]:
    """Matrix products with TF32 on a GPU, and garbage collection for each recording of only what is new."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_float32_matmul_precision(before)


def _rows(table: Table, grid: Grid, every: int) -> list[Row]:
    """Curves of some systems over each sweep, everything at a few points, and the use of experts in training."""
    found = [
        row(f"{method.name} on {sweep.name}", metric, table.of(point, method, metric).tolist(), x=value)
        for metric, methods in ((PRECISION, DRAWN), (RECALL, WITH_RECALL))
        for sweep in grid.sweeps
        for method in methods
        for value, point in sweep
    ]
    for place, point in _places(grid).items():
        found += [
            row(f"{name} at {place}", metric, table.of(point, name, metric).tolist())
            for name in table.names(point)
            for metric in (AT_CENTRE if point == grid.centre else (PRECISION, RECALL))
        ]
    for method in (MOE_USER_ITEM, MOE_ITEM, SQUARES_ITEM):
        trails = [one["effective"] for one in table.facts[grid.centre, method.name]]
        found += [
            row(f"{method.name} in training", "effective experts", values, x=float(every * (at + 1)))
            for at, values in enumerate(zip(*trails, strict=False))
        ]
    return found


def _places(grid: Grid) -> dict[str, Point]:
    """Points that have a table of their own, by name."""
    others = [one for one in (*grid.mitigated, *grid.tabled) if one != grid.centre]
    named = {"blocks" if one.blocks else f"c={one.examples}": one for one in others}
    return {"the centre": grid.centre, **named}
