"""Long columns looked at block by block, because numpy widens every index to 64 bits before it uses it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 18


def blocks(count: int) -> Iterator[slice]:
    """The places 0 .. count - 1 in runs."""
    return (slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))


def taken(column: NDArray[Any], places: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """`column[places]`."""
    found = np.empty((len(places), *column.shape[1:]), column.dtype)
    for block in blocks(len(places)):
        found[block] = column[places[block]]
    return found


def marked(places: NDArray[np.integer[Any]], count: int) -> NDArray[np.bool_]:
    """Which of 0 .. count - 1 are among `places` [count]."""
    found = np.zeros(count, bool)
    for block in blocks(len(places)):
        found[places[block]] = True
    return found


def places_of(mask: NDArray[np.bool_], offset: int = 0) -> NDArray[np.int32]:
    """Where a mask is true, as int32, counted from `offset`."""
    found = np.empty(np.count_nonzero(mask), np.int32)
    filled = 0
    for block in blocks(len(mask)):
        some = np.flatnonzero(mask[block])
        found[filled : filled + len(some)] = some + (block.start + offset)
        filled += len(some)
    return found
