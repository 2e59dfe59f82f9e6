"""Experiments: one file each, results as data."""

from collections.abc import Callable, Mapping
from typing import Any

from shortlist.reproduce.classic import classic_ml1m
from shortlist.reproduce.quality_time import dtr_time
from shortlist.reproduce.table2 import dtr_table2, dtr_table2_mind
from shortlist.reproduce.tree_speed import tree_speed
from shortlist.reproduce.world import demo_world

EXPERIMENTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "classic-ml1m": classic_ml1m,
    "demo-world": demo_world,
    "dtr-table2": dtr_table2,
    "dtr-table2-mind": dtr_table2_mind,
    "dtr-time": dtr_time,
    "tree-speed-h200": tree_speed,
}

__all__ = [
    "EXPERIMENTS",
    "classic_ml1m",
    "demo_world",
    "dtr_table2",
    "dtr_table2_mind",
    "dtr_time",
    "tree_speed",
]
