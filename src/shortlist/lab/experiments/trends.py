"""Claims on curves: they rise, they stay, one gains more than another."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import Curve, Runs, means
from shortlist.lab.result import claim
from shortlist.metrics.significance import paired


def rises(name: str, source: str, curve: Curve, metric: str = "f1@20") -> dict[str, Any]:
    """Users are served better at the largest value than at the smallest."""
    told = pooled(name, source, curve[max(curve)], curve[min(curve)], True, metric)
    levels = [statistics.fmean(means(curve[value], metric)) for value in sorted(curve)]
    return told | {"note": f"{told['note']}, {steps_up(levels)}"}


def steps_up(levels: Sequence[float]) -> str:
    """How many steps of a curve go up, in words."""
    return f"{sum(a < b for a, b in pairwise(levels))} of {len(levels) - 1} steps go up"


def steady(
    name: str, source: str, ones: Runs, others: Runs, metric: str = "f1@20", within: float = 0.1
) -> dict[str, Any]:
    """No difference that matters: the whole interval is smaller than a share of what the others reach."""
    a, b = (torch.cat([one[""][metric] for one in side]) for side in (ones, others))
    found, limit = paired(a, b, 0), within * float(b.nanmean())
    note = f"paired difference in {metric} over {len(a)} users; the interval must stay within ±{limit:.4f}"
    holds = -limit <= found.low and found.high <= limit
    return claim(name, source, holds, found.difference, note, [found.low, found.high])


def gain(curve: Curve, metric: str = "f1@20") -> list[dict[str, Scores]]:
    """What every user gains from the smallest value to the largest, as scores."""
    return [
        {"": Scores({metric: high[""][metric] - low[""][metric]}, {})}
        for high, low in zip(curve[max(curve)], curve[min(curve)], strict=True)
    ]


def averaged(sides: Sequence[Runs], metric: str = "f1@20") -> list[dict[str, Scores]]:
    """Every user's mean over several systems, as scores: each user still counts once."""
    return [
        {"": Scores({metric: torch.stack([one[""][metric] for one in runs]).mean(0)}, {})}
        for runs in zip(*sides, strict=True)
    ]


def over_seeds(
    name: str, source: str, values: Sequence[float], note: str, least: float = 0.0
) -> dict[str, Any]:
    """A value of which only one per seed is known must lie above a limit for all of them."""
    told = f"{note}; the interval is the range over {len(values)} seeds"
    return claim(name, source, min(values) > least, statistics.fmean(values), told, _range(values))


def _range(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)]


def who_is_above(
    source: str,
    where: str,
    found: Mapping[str, Runs],
    pairs: Sequence[tuple[str, str]],
    said: str = "",
    strict: bool = True,
) -> list[dict[str, Any]]:
    """A claim for every (upper, lower) pair of systems."""
    sign = ">" if strict else ">="
    return [
        pooled(f"{upper} {sign} {lower}{said} on {where}", source, found[upper], found[lower], strict)
        for upper, lower in pairs
    ]
