"""Answers of cells without training: metrics by user that say how good each system is."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.measured import COLUMNS, UserSums
from shortlist.lab.experiments.two_time_scale.cells.state_cell import CURVE

USERS = 90  # a third new, inactive and active each
MadeUp = Callable[..., Path]


@pytest.fixture
def made_up(tmp_path: Path) -> MadeUp:
    """A cache file with an answer for every cell of a plan; a system has the mean reciprocal rank that is given."""

    def made(plan: Plan, means: Mapping[str, float], low: float = 0.005) -> Path:
        path = tmp_path / "answers.safetensors"
        cache = AnswerCache()
        for cell in plan.cells():
            mean = means.get(cell.system.name, 0.2)
            if cell.kind == CURVE:
                cache.put(str(cell), empty(), curve_facts(mean), cell.settings)
            else:
                cache.put(str(cell), sums_of(mean, cell.seed).tensor(), facts_of(mean, low), cell.settings)
        AnswerCache(path).merge([cache])
        return path

    return made


def sums_of(mean: float, seed: int) -> UserSums:
    """Users with 10 events each; the noise is the same for all systems of a seed."""
    noise = np.random.default_rng(seed).normal(0, 0.02, (USERS, 1))
    counts = np.repeat([0.0, 5.0, 60.0], USERS // 3)
    events = np.full(USERS, 10.0)
    own = np.random.default_rng((seed, int(1e6 * mean))).normal(0, 0.004, (USERS, 1))
    return UserSums(counts, events, events, 10 * (mean + noise + own) * np.ones((1, len(COLUMNS))))


def facts_of(mean: float, low: float = 0.005) -> dict[str, object]:
    """What a cell knows beside its sums."""
    bins = [
        {"first": first, "users": 40, "events": 100, "mean": mean + first / 1000} for first in (1, 2, 4, 11)
    ]
    steps = [{"first": first, "users": 40, "events": 100, "mean": mean} for first in (21, 201)]
    path = {
        "k": [1, 2],
        "users": [9, 9],
        "norm": [0.2, 0.2],
        "relative": [0.1, 0.1],
        "total variation": [0.3, 0.3],
    }
    curves = {
        f"{name}, {kind}": one
        for kind in ("raw", "excl")
        for name, one in (("new users", bins), ("steps since base", steps))
    }
    gains = [
        {
            "first": first,
            "users": 40,
            "mean": mean + first / 1000,
            "gain": first / 1000,
            "low": low,
            "high": 0.015,
        }
        for first in (1, 2, 4, 11)
    ]
    return {
        "gains": {"raw": gains, "excl": gains},
        "activity": {"survival": [[1, 1.0], [20, 0.5]], "exponents": [[1, 1.6, 60]]},
        "validation": mean,
        "seconds": 10.0,
        "memory": 100.0,
        "threshold": 20,
        "curves": curves,
        "paths": {"inactive": path, "active": {**path, "norm": [0.1, 0.1]}, "active, as new": path},
    }


def curve_facts(mean: float) -> dict[str, object]:
    """Three epochs that come near to the mean."""
    shares = (0.5, 0.9, 1.0)
    points = [
        {"stage": "one", "seconds": 3.0 * at, "value": mean * share} for at, share in enumerate(shares, 1)
    ]
    return {"points": points, "seconds by stage": {"one": 9.0}}
