"""Indexing of long columns block by block: numpy widens every index array to 64 bits before it uses it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 18


def blocks(count: int) -> Iterator[slice]:
    """Slices that cover 0 .. count - 1."""
    return (slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))


def take(column: NDArray[Any], positions: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """`column[positions]`."""
    values = np.empty((len(positions), *column.shape[1:]), column.dtype)
    for block in blocks(len(positions)):
        values[block] = column[positions[block]]
    return values


def mask_of(positions: NDArray[np.integer[Any]], count: int) -> NDArray[np.bool_]:
    """Mask [count] that is true at `positions`."""
    mask = np.zeros(count, bool)
    for block in blocks(len(positions)):
        mask[positions[block]] = True
    return mask


def positions_of(mask: NDArray[np.bool_], offset: int = 0) -> NDArray[np.int32]:
    """Positions where a mask is true, plus `offset`, as int32."""
    positions = np.empty(np.count_nonzero(mask), np.int32)
    filled = 0
    for block in blocks(len(mask)):
        inside = np.flatnonzero(mask[block])
        positions[filled : filled + len(inside)] = inside + (block.start + offset)
        filled += len(inside)
    return positions
