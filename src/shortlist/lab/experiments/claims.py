"""Claims that one system is better than another on the same users."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.result import claim
from shortlist.metrics.significance import paired


def better(name: str, pairs: Sequence[tuple[Scores, Scores]], seeds: Sequence[int]) -> dict[str, Any]:
    """The paired difference in recall@20 of (one, other) for each seed; it must lie above 0 on every one."""
    seen = [one.against(other, "recall@20", seed) for (one, other), seed in zip(pairs, seeds, strict=True)]
    low, high = min(found.low for found in seen), max(found.high for found in seen)
    mean = sum(found.difference for found in seen) / len(seen)
    note = "paired difference in recall@20; the interval covers those of all seeds"
    return claim(name, "foundation", all(found.above for found in seen), mean, note, [low, high])


def pooled(
    name: str,
    source: str,
    ones: Sequence[Mapping[str, Scores]],
    others: Sequence[Mapping[str, Scores]],
    strict: bool,
    metric: str = "f1@20",
    kind: str = "",
) -> dict[str, Any]:
    """The paired difference over the users of all seeds; strictly above, or at least not clearly below."""
    a, b = (torch.cat([one[kind][metric] for one in side]) for side in (ones, others))
    found = paired(a, b, 0)
    holds = found.above if strict else not (found.below or math.isnan(found.high))
    says = "clearly above" if found.above else "clearly below" if found.below else "no clear difference"
    up = sum(
        float((x[kind][metric] - y[kind][metric]).nanmean()) > 0 for x, y in zip(ones, others, strict=True)
    )
    note = (
        f"paired difference in {metric}{kind} over {len(a)} users: {says}; above on {up} of {len(ones)} seeds"
    )
    return claim(name, source, holds, found.difference, note, [found.low, found.high])
