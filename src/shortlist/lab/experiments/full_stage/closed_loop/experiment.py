"""A live funnel whose retrieval is trained from its own log, round after round.

Catalogue, pre-rank, rank and re-rank models are those of World A with known utilities. Rounds with random retrieval
come first; then every arm is trained from the log of the last rounds: written by the logger of the package, sampled,
joined with feedback that is drawn from r once per shown item, and read back. 1 % of the retrieved items are random.
Frozen arms are trained once. In set-ups with 5 channels the arm returns 20 % of the candidates. In the middle the
rank model is replaced: by one of another seed, by one of another label, or by a boost of short videos ("misaligned"
set-ups have this boost from the first round). Figures are means over the rounds before the change; drop is their
utility minus that of the round of the change. Utility is the expected number of liked items in the final slots. LCRON
trains a pre-rank model beside retrieval, which is not served. Oracles know r and the later stages. Each claim holds
if the 95 % interval of its paired difference over seeds is above 0.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.full_stage.cells import grids_folder, world_of
from shortlist.lab.experiments.full_stage.closed_loop.loop_arms import ARMS
from shortlist.lab.experiments.full_stage.closed_loop.loop_cells import (
    AFTER,
    DROP,
    METRICS,
    RECOVERY,
    ROUNDS,
    TOTAL,
    LoopCell,
    run_loop_cell,
)
from shortlist.lab.experiments.full_stage.closed_loop.loop_claims import Facts, loop_claims, loop_differences
from shortlist.lab.experiments.full_stage.closed_loop.sizes import SETUPS
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.result import Result, Row, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.closed_loop.measures import COVERAGE, UTILITY, YIELD

FIRST = (TOTAL, UTILITY, AFTER, DROP, RECOVERY)
CURVES = (UTILITY, YIELD, COVERAGE)  # with a row per round


def fsltr_closed_loop(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "fsltr-closed-loop",
    size: str = "full",
) -> Result:
    """All arms in all set-ups of World A; `data` is not needed.

    `size` is the world of the full profile. `only` cells WORLD/SETUP/ARM/SEED under these patterns are run.
    """
    began = start()
    world = world_of(profile, name, size)
    cells = [LoopCell(world, setup.name, arm, seed) for setup in SETUPS for arm in ARMS for seed in seeds]
    cache = AnswerCache.open(cache_file)
    with grids_folder(cache_file) as folder:
        run = partial(run_loop_cell, folder=folder)
        failed = run_cells(chosen_cells(cells, only), cache, run, lambda cell: cell.settings, jobs, progress)
    missing = {str(cell): "not run" for cell in cells if not cache.has(str(cell))}
    facts = _facts(cells, cache)
    return result(
        name,
        profile,
        seeds,
        began,
        _rows(facts),
        loop_claims(facts),
        differences=loop_differences(facts),
        settings=cache.settings,
        skipped={**missing, **failed},
        x="round",
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def _facts(cells: Sequence[LoopCell], cache: AnswerCache) -> Facts:
    """The cells that the cache has, by set-up, arm and seed."""
    found: dict[str, dict[str, dict[int, Mapping[str, Any]]]] = {}
    for cell in cells:
        if cache.has(str(cell)):
            found.setdefault(cell.setup, {}).setdefault(cell.arm, {})[cell.seed] = cache.facts[str(cell)]
    return found


def _rows(facts: Facts) -> list[Row]:
    return [
        one
        for setup, arms in facts.items()
        for arm, seeds in arms.items()
        for one in _arm_rows(f"{arm} on {setup}", list(seeds.values()))
    ]


def _arm_rows(title: str, seeds: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The summary of an arm, its seconds, and its curves."""
    names = [*FIRST, *(name for name in seeds[0][METRICS] if name not in FIRST)]
    means = [row(title, name, [one[METRICS][name] for one in seeds]) for name in names]
    curves = [
        row(title, name, [one[ROUNDS][number][name] for one in seeds], x=float(number))
        for name in CURVES
        for number in range(len(seeds[0][ROUNDS]))
    ]
    return [*means, row(title, "seconds", [one["seconds"] for one in seeds]), *curves]
