"""Claims about curves: a metric rises, stays, or rises more for one system than for another."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import Curve, Runs, means
from shortlist.lab.result import Claim, claim
from shortlist.metrics.significance import paired


def rises(name: str, source: str, curve: Curve, metric: str = "f1@20") -> Claim:
    """The metric is higher at the largest value than at the smallest."""
    ends = pooled(name, source, curve[max(curve)], curve[min(curve)], True, metric)
    levels = [statistics.fmean(means(curve[value], metric)) for value in sorted(curve)]
    return replace(ends, note=f"{ends.note}, {steps_up(levels)}")


def steps_up(levels: Sequence[float]) -> str:
    """How many steps of a curve go up, as text."""
    return f"{sum(a < b for a, b in pairwise(levels))} of {len(levels) - 1} steps go up"


def steady(
    name: str, source: str, ones: Runs, others: Runs, metric: str = "f1@20", within: float = 0.1
) -> Claim:
    """No relevant difference: the whole interval is smaller than a share of the others' mean."""
    a, b = (torch.cat([one[""][metric] for one in side]) for side in (ones, others))
    found, limit = paired(a, b, 0), within * float(b.nanmean())
    note = f"paired difference in {metric} over {len(a)} users; the interval must stay within ±{limit:.4f}"
    holds = -limit <= found.low and found.high <= limit
    return claim(name, source, holds, found.difference, note, [found.low, found.high])


def gain(curve: Curve, metric: str = "f1@20") -> list[dict[str, Scores]]:
    """The gain of every user from the smallest value to the largest, as scores."""
    return [
        {"": Scores({metric: high[""][metric] - low[""][metric]}, {})}
        for high, low in zip(curve[max(curve)], curve[min(curve)], strict=True)
    ]


def averaged(sides: Sequence[Runs], metric: str = "f1@20") -> list[dict[str, Scores]]:
    """The mean of every user over several systems, as scores: each user still counts once."""
    return [
        {"": Scores({metric: torch.stack([one[""][metric] for one in runs]).mean(0)}, {})}
        for runs in zip(*sides, strict=True)
    ]


def over_seeds(name: str, source: str, values: Sequence[float], note: str, least: float = 0.0) -> Claim:
    """A value with one number per seed lies above a limit for all seeds."""
    text = f"{note}; the interval is the range over {len(values)} seeds"
    ends = [min(values), max(values)]
    return claim(name, source, min(values) > least, statistics.fmean(values), text, ends)


def compare_pairs(
    source: str,
    dataset: str,
    found: Mapping[str, Runs],
    pairs: Sequence[tuple[str, str]],
    condition: str = "",
    strict: bool = True,
) -> list[Claim]:
    """A claim for every (upper, lower) pair of systems."""
    sign = ">" if strict else ">="
    return [
        pooled(f"{upper} {sign} {lower}{condition} on {dataset}", source, found[upper], found[lower], strict)
        for upper, lower in pairs
    ]
