"""Cells of an experiment in several processes; every finished one is in the cache, so that a run can be resumed."""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from fnmatch import fnmatch
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError, ShortlistError
from shortlist.lab.experiments.cache import ORIGIN, AnswerCache
from shortlist.lab.result import commit, has_changes, machine
from shortlist.progress import Progress, silent

Cell = TypeVar("Cell")  # its text is its name in the cache, and ends with the seed
Run = Callable[[Cell], tuple[Tensor, dict[str, Any]]]
Answer = tuple[NDArray[np.float32], dict[str, Any]]  # tensors do not travel well between processes


def run_cells(
    cells: Sequence[Cell],
    cache: AnswerCache,
    run: Run[Cell],
    settings: Callable[[Cell], Mapping[str, Any]],
    jobs: int = 1,
    progress: Progress = silent,
    group: Callable[[Cell], Hashable] | None = None,
) -> dict[str, str]:
    """Run the cells that the cache does not have, in this order; those that fail are returned with the reason.

    Cells of one `group` are run in one process, which keeps what they share.
    """
    missing = [cell for cell in cells if not cache.has(str(cell), settings(cell))]
    failed: dict[str, str] = {}
    origin = origin_of_cells()
    progress("cells", 0, len(missing))
    for done, (cell, answer) in enumerate(_answers(missing, run, jobs, group), start=1):
        if isinstance(answer, str):
            failed[str(cell)] = answer
        else:
            values, facts = answer
            cache.put(str(cell), torch.from_numpy(values), {**facts, **origin}, settings(cell))
        progress("cells", done, len(missing))
    return failed


def origin_of_cells() -> dict[str, Any]:
    """Machine and commit of the cells that are computed now, as a fact of each."""
    return {ORIGIN: [machine(), commit() + (" with changes" if has_changes() else "")]}


def chosen_cells(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells under the patterns of `--only`, or all without any."""
    chosen = [cell for cell in cells if not only or any(fnmatch(str(cell), one) for one in only)]
    if not chosen:
        raise ConfigError(f"--only: expected patterns of cells like {cells[0]}, got {', '.join(only)}")
    return chosen


def _answers(
    cells: Sequence[Cell], run: Run[Cell], jobs: int, group: Callable[[Cell], Hashable] | None
) -> Iterator[tuple[Cell, Answer | str]]:
    if jobs > 1:
        yield from _in_processes(cells, run, jobs, group)
    else:
        yield from ((cell, _tried(cell, run)) for cell in cells)


def _in_processes(
    cells: Sequence[Cell], run: Run[Cell], jobs: int, group: Callable[[Cell], Hashable] | None
) -> Iterator[tuple[Cell, Answer | str]]:
    threads = max((os.cpu_count() or 1) // jobs, 1)
    # With groups, every process is a pool of its own. A forked process cannot use a GPU that its parent has used.
    workers = [jobs] if group is None else [1] * jobs
    pools = [
        ProcessPoolExecutor(one, get_context("spawn"), torch.set_num_threads, (threads,)) for one in workers
    ]
    places = _places(cells, len(pools), group)
    try:
        futures: dict[Future[Answer | str], Cell] = {
            pools[place].submit(_tried, cell, run): cell for cell, place in zip(cells, places, strict=True)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)  # an interrupted run does not start the cells that wait


def _places(cells: Sequence[Cell], pools: int, group: Callable[[Cell], Hashable] | None) -> list[int]:
    """The pool of each cell: that of its group; the largest group first, each to the pool with the fewest cells."""
    if group is None:
        return [0] * len(cells)
    groups = [group(cell) for cell in cells]
    place, load = {}, [0] * pools
    for one, count in Counter(groups).most_common():
        place[one] = load.index(min(load))
        load[place[one]] += count
    return [place[one] for one in groups]


def _tried(cell: Cell, run: Run[Cell]) -> Answer | str:
    """The answer of a cell, or why there is none: a refused setting, memory, or an error of the device."""
    try:
        values, facts = run(cell)
        return values.float().numpy(), as_json(facts)
    except (ShortlistError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
