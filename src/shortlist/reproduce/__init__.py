"""Experiments: one file each, results as data."""

from collections.abc import Callable, Mapping
from typing import Any

from shortlist.reproduce.classic import classic_ml1m
from shortlist.reproduce.world import demo_world

EXPERIMENTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "classic-ml1m": classic_ml1m,
    "demo-world": demo_world,
}

__all__ = ["EXPERIMENTS", "classic_ml1m", "demo_world"]
