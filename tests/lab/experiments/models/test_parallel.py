"""Cells in several processes, resumed from a cache."""

import torch

from shortlist.errors import DataError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models import parallel
from shortlist.lab.experiments.models.cells import Cell, Setup
from shortlist.lab.experiments.models.parallel import fill_cache

DEMO = Setup("demo", "half-history")
CELLS = [Cell(DEMO, "last-click", seed) for seed in (0, 1)]


def test_processes_find_what_one_process_finds(tmp_path):
    one, two = AnswerCache(), AnswerCache(tmp_path / "cells.safetensors")
    assert fill_cache(CELLS, one, None, is_quick=True) == {}
    assert fill_cache(CELLS, two, None, is_quick=True, jobs=2) == {}
    stored = AnswerCache.open(tmp_path / "cells.safetensors")
    assert stored.tensors.keys() == one.tensors.keys() == {str(cell) for cell in CELLS}
    for name, values in one.tensors.items():
        torch.testing.assert_close(stored.tensors[name], values)


def test_cells_in_the_cache_are_not_run_again_and_refusals_are_reported(monkeypatch):
    cache, ran = AnswerCache(), []

    def stub(cell, folder, is_quick):
        ran.append(str(cell))
        if cell.seed:
            raise DataError("too few users")
        return torch.ones(3, 4), {"seconds": 1.0}

    monkeypatch.setattr(parallel, "run_cell", stub)
    for _ in range(2):
        assert fill_cache(CELLS, cache, None, is_quick=True) == {str(CELLS[1]): "DataError: too few users"}
    assert ran == [str(CELLS[0]), str(CELLS[1]), str(CELLS[1])]


def test_seeds_follow_each_other_and_long_cells_come_first(monkeypatch):
    ran = []

    def stub(cell, folder, is_quick):
        ran.append((cell.seed, cell.system))
        return torch.ones(3, 4), {"seconds": 1.0}

    monkeypatch.setattr(parallel, "run_cell", stub)
    cells = [Cell(DEMO, system, seed) for seed in (1, 0) for system in ("ease", "auto", "sasrec")]
    fill_cache(cells, AnswerCache(), None, is_quick=True)
    assert ran == [(seed, system) for seed in (0, 1) for system in ("auto", "sasrec", "ease")]
