"""Timing of several works in alternation."""

import time
from collections.abc import Callable, Mapping, Sequence

from shortlist.lab.result import Claim

Work = Callable[[int], object]


def alternating(
    works: Mapping[str, Work],
    repeats: int,
    calls: Mapping[str, int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call of each work by `clock`, one work after the other in every round; the first round is a warmup.

    A fast work is called `calls` times per round and the mean is returned: then both sides take about as long, and
    neither always finds the caches full of the other's data or is the one that the system interrupts.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(-1, repeats):
        for name, work in works.items():
            count, began = (calls or {}).get(name, 1), clock()
            for call in range(count):
                work(number * count + call)
            times[name] += [(clock() - began) / count] if number >= 0 else []
    return times


def estimates(claims: Sequence[Claim]) -> dict[str, float]:
    """The estimate of every claim, by its id."""
    return {claim.id: claim.estimate for claim in claims}
