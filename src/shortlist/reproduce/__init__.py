"""Experiments: one file each, results as data."""

from collections.abc import Callable, Mapping
from typing import Any

from shortlist.reproduce.classic import classic_ml1m

EXPERIMENTS: Mapping[str, Callable[..., dict[str, Any]]] = {"classic-ml1m": classic_ml1m}

__all__ = ["EXPERIMENTS", "classic_ml1m"]
