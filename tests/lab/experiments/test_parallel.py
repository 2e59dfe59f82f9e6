"""Cells of any experiment: chosen by patterns, run in the order given, kept in a cache."""

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
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
