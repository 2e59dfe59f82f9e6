"""Random negatives of events: keyed by event and seed, so that every model gets the same ones."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data.time_split.ties import GOLDEN, mixed
from shortlist.errors import ConfigError

ROUNDS = 6  # of the Feistel network
BLOCK = 1 << 18  # negatives that are drawn at a time
ROUND_MIX = np.uint32(0x2C1B3C6D), np.uint32(0x297A2D39)

Rows = NDArray[np.int64]
Words = NDArray[np.uint32]


def keyed_negatives(
    event_ids: NDArray[Any], targets: NDArray[Any], n_items: int, n_neg: int, seed: int
) -> Rows:
    """Random items other than the target of each event, without replacement [b, min(n_neg, N - 1)].

    The items of an event depend on its id, its target and the seed alone: not on the batch, the model or the machine.
    They are the first values of a keyed permutation of the N - 1 other items.
    """
    if not 1 <= n_items <= 2**31 or n_neg < 1:
        raise ConfigError(f"negatives: expected 1 to 2^31 items and n_neg from 1, got {n_items} and {n_neg}")
    others, width = n_items - 1, min(n_neg, n_items - 1)
    if n_neg >= others:
        return _without(np.broadcast_to(np.arange(others), (len(targets), others)), targets)
    drawn = np.empty((len(targets), width), np.int64)
    size = max(1, BLOCK // width)

    def fill(start: int) -> None:
        part = slice(start, start + size)
        drawn[part] = _without(
            _first_values(_round_keys(event_ids[part], seed), others, width), targets[part]
        )

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(fill, range(0, len(targets), size)))
    return drawn


def _without(numbers: Rows, targets: NDArray[Any]) -> Rows:
    """Items by their numbers among those other than the target of each row [b, M]."""
    return np.asarray(numbers + (numbers >= targets[:, None]))


def _round_keys(event_ids: NDArray[Any], seed: int) -> Words:
    """Keys of the rounds of the network of each event [b, ROUNDS]."""
    start = mixed(np.array([seed % 2**64], np.uint64)) ^ event_ids.astype(np.uint64)
    steps = np.arange(1, ROUNDS + 1, dtype=np.uint64) * GOLDEN
    return (mixed(mixed(start)[:, None] + steps) >> np.uint64(32)).astype(np.uint32)


def _first_values(keys: Words, count: int, width: int) -> Rows:
    """The first `width` values of the permutation of 0 .. count - 1 with these round keys [b, width].

    The network permutes the numbers below a product that is a little above `count`. A value from `count` on is permuted
    again, until it is below (Black and Rogaway, 2002): what is left is a permutation of 0 .. count - 1.
    """
    high = math.isqrt(count - 1) + 1
    sizes = high, -(-count // high)
    start = np.arange(width, dtype=np.uint32)[None]
    values = _network(start, keys.T[:, :, None], sizes)  # [b, width]
    flat = values.reshape(-1)
    outside = np.flatnonzero(flat >= count)
    while len(outside):
        again = _network(flat[outside], keys.T[:, outside // width], sizes)
        flat[outside] = again
        outside = outside[again >= count]
    return values.astype(np.int64)


def _network(values: Words, keys: Words, sizes: tuple[int, int]) -> Words:
    """A Feistel network over numbers below high * low, the two sizes; keys[i] are those of round i.

    A round adds a hash of one part of the number to the other part, modulo its size: it can be undone.
    """
    high, low = np.uint32(sizes[0]), np.uint32(sizes[1])
    first, last = values // low, values % low
    for number in range(0, ROUNDS, 2):
        first = _added(first, _hashed(last, keys[number], high), high)
        last = _added(last, _hashed(first, keys[number + 1], low), low)
    first *= low
    first += last
    return first


def _hashed(values: Words, keys: Words, size: np.uint32) -> Words:
    """Numbers below `size`, at most 2^16, that depend on a value and a key."""
    bits = values ^ keys
    bits *= ROUND_MIX[0]
    bits ^= bits >> np.uint32(15)
    bits *= ROUND_MIX[1]
    bits >>= np.uint32(16)
    bits *= size
    bits >>= np.uint32(16)
    return bits


def _added(values: Words, more: Words, size: np.uint32) -> Words:
    """(values + more) modulo size, of numbers below `size`; `more` is overwritten."""
    more += values
    np.minimum(more, more - size, out=more)  # a number below 0 becomes a large one
    return more
