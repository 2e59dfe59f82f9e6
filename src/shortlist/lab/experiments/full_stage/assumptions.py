"""What full-stage training assumes about the stages of a funnel, measured where utilities are known.

Assumption 1: whether a stage keeps an item does not depend on the other candidates. A pointwise model from both stage
scores, or from means of the scores over users and items, predicts the choice; the gap is what statistics of the
candidate set add to its AUC. Assumption 2: ratios of utilities between items of consecutive stages lie in [1/2, 2],
and ratios of exposure probabilities are at least 2. Theorem 1: labels order items of different stages as exposure
probability x utility does. Requests draw items of a user's pool at random ("uniform"), or prefer high utilities
("interest"); models are fitted on earlier requests and measured on later ones. Exposure probabilities are those of
uniform requests, counted.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from shortlist.diagnose.log.selection import MEANS, SCORES, Features, SelectionTable, selection_models
from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.lab.experiments.full_stage.cells import METRICS, grids_folder, known_grids, world_of
from shortlist.lab.experiments.full_stage.grids import Grid, Grids
from shortlist.lab.experiments.full_stage.logged_requests import LOGGING, StageRows, logged_rows
from shortlist.lab.experiments.full_stage.sizes import SIZES, Size
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.result import Claim, Result, claim, result, row, start
from shortlist.metrics.funnel.agreement import stage_ratio, theorem1_agreement
from shortlist.metrics.funnel.set_dependence import SetDependence
from shortlist.metrics.t_tests import paired_t
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.static_requests import exposure_rates
from shortlist.train.objectives.relabel import consecutive, relabel

STAGES = {2: "pre-rank", 3: "rank"}
SHOWN = 3
REQUESTS = {"tiny": 120, "small": 400, "full": 600}
BOUND = 2.0
PAPER, SPEC = "Full Stage Learning to Rank, section 6", "specification 2.3"
AUC, GAP, SHARE = 0.8, 0.01, 0.95  # limits of the claims


@dataclass(frozen=True)
class AssumptionCell:
    """Requests of one world and seed, logged with one retrieval."""

    world: str
    logging: str
    seed: int

    def __str__(self) -> str:
        return f"{self.world}/{self.logging}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answer."""
        return {"size": asdict(SIZES[self.world]), "requests": REQUESTS[self.world]}


def fsltr_assumptions(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "fsltr-assumptions",
    size: str = "full",
) -> Result:
    """Both assumptions and the theorem in World A; `data` is not needed.

    `size` is the world of the full profile. `only` cells WORLD/LOGGING/SEED under these patterns are run.
    """
    began = start()
    world = world_of(profile, name, size)
    cells = [AssumptionCell(world, logging, seed) for logging in LOGGING for seed in seeds]
    cache = AnswerCache.open(cache_file)
    with grids_folder(cache_file) as folder:
        run = partial(run_assumptions, folder=folder)
        chosen = chosen_cells(cells, only)
        failed = run_cells(chosen, cache, run, lambda cell: cell.settings, jobs, progress)
    missing = {str(cell): "not run" for cell in cells if not cache.has(str(cell))}
    values = _values(cells, cache)
    return result(
        name,
        profile,
        seeds,
        began,
        [row(where, metric, own) for (where, metric), own in values.items()],
        _claims(values),
        settings=cache.settings,
        skipped={**missing, **failed},
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def run_assumptions(
    cell: AssumptionCell, folder: Path, device: str = "auto"
) -> tuple[Tensor, dict[str, Any]]:
    """All figures of a cell as facts, by subject and metric."""
    began = time.perf_counter()
    size, grids = SIZES[cell.world], known_grids(cell.world, cell.seed, folder, device, None)
    rows = logged_rows(grids, size, cell.logging, REQUESTS[cell.world], cell.seed)
    found = selection(grids, rows) | interests(grids, size, rows, cell.seed)
    return empty(), {METRICS: found, "seconds": time.perf_counter() - began}


def selection(grids: Grids, rows: StageRows) -> dict[str, dict[str, float]]:
    """AUC of the pointwise models and the gap to set-aware ones, by stage and features."""
    scores = [grid[rows.user, rows.item].astype(np.float64) for grid in (grids.prerank, grids.rank)]
    score = np.stack([np.zeros(len(rows.user)), *scores], axis=1)  # retrieval has no report
    means = _means(grids, rows)
    table = SelectionTable(rows.request, rows.request, rows.reached, np.ones(len(rows.user)), score)
    known: dict[str, Features] = {SCORES: lambda _: score[:, 1:], MEANS: lambda _: means}
    return {
        f"{one.stage}, {one.features}": _figures(one.report) for one in selection_models(table, known, STAGES)
    }


def _means(grids: Grids, rows: StageRows) -> Grid:
    """Mean scores of the item over users, and of the user over items [n, 4]."""
    columns = [
        values
        for grid in (grids.prerank, grids.rank)
        for values in (grid.mean(axis=0)[rows.item], grid.mean(axis=1)[rows.user])
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _figures(report: SetDependence) -> dict[str, float]:
    one = report.pointwise
    return {
        "AUC": one.auc.auc.value,
        "UAUC": one.auc.uauc.value,
        "WUAUC": one.auc.wuauc.value,
        "log loss": one.calibration.log_loss,
        "calibration error": one.calibration.expected_error,
        "set gap": report.gap,
    }


def interests(grids: Grids, size: Size, rows: StageRows, seed: int) -> dict[str, dict[str, float]]:
    """Ratios of utilities and exposure probabilities, and how often labels order pairs rightly."""
    utility = np.maximum(grids.utility[rows.user, rows.item].astype(np.float64), 1e-6)
    exposure = _exposure(grids, size, seed)[rows.user, rows.item]
    found = {
        f"stage {stage}, {STAGES[stage]}": {
            **_ratio("utility", utility, stage, rows),
            **_ratio("exposure", exposure, stage, rows),
        }
        for stage in STAGES
    }
    y = np.where(rows.reached == SHOWN, grids.label[rows.user, rows.item], -1)
    labels = relabel(rows.reached, y, consecutive(SHOWN), SHOWN)
    cells = theorem1_agreement(rows.reached, labels, exposure * utility, rows.request)
    agree = {f"labels agree, S {one.lower} and {one.higher}": one.agree for one in cells}
    return {**found, "theorem 1": agree}


def _ratio(name: str, values: Grid, stage: int, rows: StageRows) -> dict[str, float]:
    one = stage_ratio(values, rows.reached, stage, rows.request, BOUND)
    return {
        f"{name} ratio of means": one.of_means,
        f"{name} ratio at least 2": one.share_at_least,
        f"{name} ratio in [1/2, 2]": one.share_within,
    }


def _exposure(grids: Grids, size: Size, seed: int) -> Grid:
    """The share of fresh uniform requests in which a candidate is shown, half a request if it never is [U, I]."""
    pools, count = grids.pools(), size.oracle_requests
    rates = np.full(grids.label.shape, 0.5 / count)
    found = exposure_rates(pools, size.requests, count, seed + 1_000_003)
    rates[pools.pools.users, pools.pools.item] = np.maximum(found, 0.5 / count)
    return rates


Values = Mapping[tuple[str, str], list[float]]


def _values(cells: Sequence[AssumptionCell], cache: AnswerCache) -> dict[tuple[str, str], list[float]]:
    """Values of the seeds that the cache has, by subject and metric."""
    values: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        facts = cache.facts[str(cell)][METRICS] if cache.has(str(cell)) else {}
        for subject, figures in facts.items():
            for metric, value in figures.items():
                where = f"{subject} on {cell.world}/{cell.logging}"
                values.setdefault((where, metric), []).append(value)
    return values


def _claims(values: Values) -> list[Claim]:
    """Claims with intervals over seeds; none with fewer than two."""
    many = {key: own for key, own in values.items() if len(own) > 1}
    limits = {
        **dict.fromkeys(("AUC", "UAUC", "WUAUC"), (PAPER, AUC, 1)),
        "set gap": (SPEC, GAP, -1),
        "utility ratio in [1/2, 2]": (PAPER, SHARE, 1),
        "exposure ratio at least 2": (PAPER, SHARE, 1),
    }
    return [
        _limited(where, metric, own, *limits[metric])
        for (where, metric), own in many.items()
        if metric in limits
    ]


def _limited(where: str, metric: str, values: Sequence[float], source: str, limit: float, sign: int) -> Claim:
    """The interval of the mean must lie above the limit, or below it for sign -1."""
    test = paired_t(values, [0.0] * len(values))
    holds = test.low >= limit if sign > 0 else test.high <= limit
    text = f"{'at least' if sign > 0 else 'at most'} {limit:g} with its interval over {len(values)} seeds"
    return claim(f"{metric}, {where}", source, holds, test.difference, text, (test.low, test.high))
