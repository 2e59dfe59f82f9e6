"""Noise of a cell (user, item): a counter-based hash, so that nothing is stored and a cell is the same in any block."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Bits = NDArray[np.uint64]


def cell_normals(seed: int, stream: int, users: Rows, items: Rows) -> Floats:
    """Standard normal numbers of cells [B, K]; users [B], items [K] or [B, K]."""
    return np.asarray(ndtri(cell_uniforms(seed, stream, users, items)), np.float32)


def cell_uniforms(seed: int, stream: int, users: Rows, items: Rows) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1) of cells [B, K]; streams of the same seed are independent of each other."""
    numbers = (cell_bits(seed, stream, users, items) >> np.uint64(11)).astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-53
    return np.asarray(numbers, np.float64)


def cell_bits(seed: int, stream: int, users: Rows, items: Rows) -> Bits:
    """64 random bits that depend only on (seed, stream, user, item) [B, K]."""
    key = _mixed(_mixed(np.array([seed], np.int64).astype(np.uint64)) + np.uint64(stream))
    rows = _mixed(_mixed(users.astype(np.uint64)) + key)[:, None]
    return _mixed(rows + items.astype(np.uint64))


def _mixed(bits: Bits) -> Bits:
    """The splitmix64 finaliser (Steele, Lea and Flood, 2014), in the memory of a copy."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits
