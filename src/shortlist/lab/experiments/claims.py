"""Claims that one system is better than another on the same users."""

import math
from collections.abc import Mapping, Sequence

import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.result import Claim, claim
from shortlist.metrics.significance import paired


def better(name: str, pairs: Sequence[tuple[Scores, Scores]], seeds: Sequence[int]) -> Claim:
    """The paired difference in recall@20 of (one, other) for each seed; it must lie above 0 for every seed."""
    tests = [one.against(other, "recall@20", seed) for (one, other), seed in zip(pairs, seeds, strict=True)]
    low, high = min(test.low for test in tests), max(test.high for test in tests)
    mean = sum(test.difference for test in tests) / len(tests)
    note = "paired difference in recall@20; the interval covers those of all seeds"
    return claim(name, "foundation", all(test.above for test in tests), mean, note, [low, high])


def pooled(
    name: str,
    source: str,
    ones: Sequence[Mapping[str, Scores]],
    others: Sequence[Mapping[str, Scores]],
    strict: bool,
    metric: str = "f1@20",
    kind: str = "",
) -> Claim:
    """The paired difference over the users of all seeds; strictly above, or at least not clearly below."""
    a, b = (torch.cat([one[kind][metric] for one in side]) for side in (ones, others))
    test = paired(a, b, 0)
    holds = test.above if strict else not (test.below or math.isnan(test.high))
    verdict = "clearly above" if test.above else "clearly below" if test.below else "no clear difference"
    up = sum(
        float((x[kind][metric] - y[kind][metric]).nanmean()) > 0 for x, y in zip(ones, others, strict=True)
    )
    note = f"paired difference in {metric}{kind} over {len(a)} users: {verdict}; above on {up} of {len(ones)} seeds"
    return claim(name, source, holds, test.difference, note, [test.low, test.high])
