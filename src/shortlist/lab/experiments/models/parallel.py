"""The cells of a table of systems, in the order in which a part of them is of most use."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import Cell, run_cell, settings_for
from shortlist.lab.experiments.parallel import run_cells
from shortlist.progress import Progress, silent

COSTS: Mapping[str, int] = {"auto": 9, "classic": 8, "bert4rec": 7, "din": 7, "sasrec": 5, "gru4rec": 5}
LAST = ("bert4rec", "din")
EVENTS: Mapping[str, int] = {"ml-1m": 10, "mind": 10, "power-law": 4, "amazon-like": 3, "demo": 1}


def fill_cache(
    cells: Sequence[Cell],
    cache: AnswerCache,
    folder: Path | None,
    is_quick: bool = False,
    jobs: int = 1,
    progress: Progress = silent,
) -> dict[str, str]:
    """Run the cells that the cache does not have; those that cannot be trained are returned with the reason.

    Seeds follow each other, so that an interrupted run has whole tables of fewer seeds; within a seed, long cells come
    first. The slowest models come last of all.
    """

    def settings(cell: Cell) -> dict[str, Any]:
        return settings_for(cell.system, is_quick)

    run = partial(run_cell, folder=folder, is_quick=is_quick)
    return run_cells(sorted(cells, key=_order), cache, run, settings, jobs, progress)


def _order(cell: Cell) -> tuple[bool, int, int, str]:
    cost = COSTS.get(cell.system.partition(",")[0], 3) * EVENTS.get(cell.setup.data, 1)
    return cell.system in LAST, cell.seed, -cost, str(cell)
