"""Alternating timings of several functions."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shortlist.lab.result import Claim

Job = Callable[[int], Any]


def alternating(
    jobs: Mapping[str, Job],
    repeats: int,
    calls: Mapping[str, int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call of each job by `clock`, one job after the other in every round; the first round is a warmup.

    A fast job is called `calls` times per round and the mean is returned: then both sides take about as long, and
    neither always finds the caches full of the other's data or is the one that the system interrupts.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(-1, repeats):
        for name, job in jobs.items():
            count, began = (calls or {}).get(name, 1), clock()
            for call in range(count):
                job(number * count + call)
            times[name] += [(clock() - began) / count] if number >= 0 else []
    return times


def estimates(claims: Sequence[Claim]) -> dict[str, float]:
    """The estimate of every claim, by its id."""
    return {claim.id: claim.estimate for claim in claims}
