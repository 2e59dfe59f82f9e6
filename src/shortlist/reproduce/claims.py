"""Claims that one system is better than another on the same users."""

from collections.abc import Sequence
from typing import Any

from shortlist.evaluate import Scores
from shortlist.report.result import claim


def better(name: str, pairs: Sequence[tuple[Scores, Scores]], seeds: Sequence[int]) -> dict[str, Any]:
    """The paired difference in recall@20 of (one, other) for each seed; it must lie above 0 on every one."""
    seen = [one.against(other, "recall@20", seed) for (one, other), seed in zip(pairs, seeds, strict=True)]
    low, high = min(found.low for found in seen), max(found.high for found in seen)
    mean = sum(found.difference for found in seen) / len(seen)
    note = "paired difference in recall@20; the interval covers those of all seeds"
    return claim(name, "foundation", low > 0, mean, note, [low, high])
