"""Cells of a table in several processes; every finished cell is in the cache, so that a run can be resumed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.artifact.as_json import as_json
from shortlist.errors import ShortlistError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import Cell, run_cell, settings_for
from shortlist.progress import Progress, silent

Answer = tuple[NDArray[np.float32], dict[str, Any]]  # tensors do not travel well between processes
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
    missing = [cell for cell in cells if not cache.has(str(cell), settings_for(cell.system, is_quick))]
    missing.sort(key=_order)
    failed: dict[str, str] = {}
    work = _in_processes(missing, folder, is_quick, jobs) if jobs > 1 else _in_turn(missing, folder, is_quick)
    progress("cells", 0, len(missing))
    for done, (cell, answer) in enumerate(work, start=1):
        if isinstance(answer, str):
            failed[str(cell)] = answer
        else:
            values, facts = answer
            cache.put(str(cell), torch.from_numpy(values), facts, settings_for(cell.system, is_quick))
        progress("cells", done, len(missing))
    return failed


def _order(cell: Cell) -> tuple[bool, int, int, str]:
    cost = COSTS.get(cell.system.partition(",")[0], 3) * EVENTS.get(cell.setup.data, 1)
    return cell.system in LAST, cell.seed, -cost, str(cell)


def _in_turn(
    cells: Sequence[Cell], folder: Path | None, is_quick: bool
) -> Iterator[tuple[Cell, Answer | str]]:
    for cell in cells:
        yield cell, _tried(cell, folder, is_quick)


def _in_processes(
    cells: Sequence[Cell], folder: Path | None, is_quick: bool, jobs: int
) -> Iterator[tuple[Cell, Answer | str]]:
    threads = max((os.cpu_count() or 1) // jobs, 1)
    # A forked process cannot use a GPU that its parent has used.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (threads,))
    try:
        futures: dict[Future[Answer | str], Cell] = {
            pool.submit(_tried, cell, folder, is_quick): cell for cell in cells
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted run does not start the cells that wait


def _tried(cell: Cell, folder: Path | None, is_quick: bool) -> Answer | str:
    """The answer of a cell, or why there is none: a refused setting, memory, or an error of the device."""
    try:
        values, facts = run_cell(cell, folder, is_quick)
        return values.float().numpy(), as_json(facts)
    except (ShortlistError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
