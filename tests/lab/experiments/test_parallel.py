"""Cells of any experiment: chosen by patterns, run in the order given, kept in a cache."""

import os

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.parallel import _places, chosen_cells, run_cells
from shortlist.lab.result import machine

CELLS = ["small/1", "small/0", "large/0"]


def test_cells_are_run_in_the_order_given_and_a_failure_has_its_reason():
    ran = []

    def run(cell):
        ran.append(cell)
        if cell == "small/0":
            raise RuntimeError("out of memory")
        return torch.ones(2), {"seconds": 1.0}

    cache = AnswerCache()
    assert run_cells(CELLS, cache, run, lambda cell: {"size": cell[:5]}) == {
        "small/0": "RuntimeError: out of memory"
    }
    assert ran == CELLS
    found = dict(cache.facts["large/0"])
    assert found.pop("origin")[0] == machine()
    assert found == {"seconds": 1.0, "settings": {"size": "large"}}
    assert cache.origins == ""  # no answer was used yet
    assert all(map(cache.has, ("small/1", "large/0")))
    assert cache.origins.startswith(f"Cells: 2 on {machine()} at commit ")
    with pytest.raises(ArtifactError, match="other settings"):
        run_cells(CELLS, cache, run, lambda cell: {"size": 3})


def test_patterns_choose_cells_and_a_pattern_without_any_is_refused():
    assert chosen_cells(CELLS, ()) == CELLS
    assert chosen_cells(CELLS, ["*/0"]) == ["small/0", "large/0"]
    with pytest.raises(ConfigError, match=r"patterns of cells like small/1, got medium/\*"):
        chosen_cells(CELLS, ["medium/*"])


def run_with_process(cell):
    """The process of a cell; at the top level, because other processes import it."""
    return torch.tensor([float(os.getpid())], dtype=torch.float64), {"process": os.getpid()}


def test_cells_of_a_group_are_run_in_one_process():
    cache = AnswerCache()
    cells = [f"{size}/{at}" for at in range(3) for size in ("small", "large")]
    assert run_cells(cells, cache, run_with_process, lambda _: {}, jobs=2, group=lambda cell: cell[:5]) == {}
    processes = {cell: cache.facts[cell]["process"] for cell in cells}
    assert len({processes[cell] for cell in cells if cell.startswith("small")}) == 1
    assert len(set(processes.values())) == 2


def test_groups_are_spread_by_their_numbers_of_cells():
    cells = ["a1", "a2", "a3", "b1", "b2", "c1"]
    places = dict(zip(cells, _places(cells, 2, lambda cell: cell[0]), strict=True))
    assert places["a1"] == places["a2"] == places["a3"] != places["b1"] == places["b2"] == places["c1"]
    assert _places(cells, 1, None) == [0] * 6
