"""Resampled sums of many columns at once: one set of bootstrap samples or sign flips, and one matrix product."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

CELLS = 1 << 22  # weights held in memory at a time
BLOCK = 8  # bootstrap samples of one random generator

Floats = NDArray[np.float64]


def resampled_means(values: Floats, seed: int, samples: int) -> Floats:
    """Means of the columns of `values` [U, M] over bootstrap samples of the rows [samples, M].

    The same seed and number of rows give the same samples, so columns of different calls are paired.
    """
    users, (whole, unit) = len(values), whole_numbers(values)
    starts = range(0, samples, BLOCK)
    at_once = max(1, CELLS // (BLOCK * users))
    sums = []
    # Blocks have generators of their own, so that threads can count them side by side.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for at in range(0, len(starts), at_once):
            blocks = pool.map(lambda start: _block(seed, start, users), starts[at : at + at_once])
            sums.append(np.concatenate([*blocks]) @ whole)
    return np.concatenate(sums)[:samples] * (unit / users)


def _block(seed: int, start: int, users: int) -> Floats:
    """How often each user is in each of BLOCK bootstrap samples [BLOCK, U]."""
    return repeats(np.random.default_rng([seed, 0, start]), BLOCK, users)


def repeats(rng: np.random.Generator, samples: int, users: int) -> Floats:
    """How often each user is in each sample of `users` users with replacement [samples, U]."""
    counts = torch.empty(samples, users, dtype=torch.float64)
    for own, rows in zip(counts, torch.from_numpy(rng.integers(0, users, (samples, users))), strict=True):
        own.copy_(rows.bincount(minlength=users))  # one sample at a time stays in the cache
    return np.asarray(counts.numpy(), np.float64)


def flipped_sums(values: Floats, seed: int, samples: int) -> Floats:
    """Sums of the columns of `values` [U, M] after random sign flips of the rows [samples, M]."""
    users, (whole, unit) = len(values), whole_numbers(values)
    rng = np.random.default_rng([seed, 1])
    return np.concatenate([_signs(rng, size, users) @ whole for size in chunks(samples, users)]) * unit


def whole_numbers(values: Floats) -> tuple[Floats, Floats]:
    """Columns [U, M] as whole numbers of a small unit [M], a power of two.

    Sums over U users are below 2^53 and thus exact: they do not depend on their order, so a column has the same bits
    alone and beside others, on every processor and number of threads. A unit is at most 2^-30 of the largest value for
    a million users.
    """
    bits = 52 - math.ceil(math.log2(max(len(values), 2)))
    unit = np.ldexp(1.0, np.frexp(abs(values).max(axis=0))[1] - bits)
    return np.rint(values / unit), unit


def _signs(rng: np.random.Generator, samples: int, users: int) -> Floats:
    """1 or -1 with equal probability [samples, U]: one random bit each."""
    width = -(-users // 32) * 4  # whole words, so that the bits do not depend on the sizes of chunks
    packed = np.frombuffer(rng.bytes(samples * width), np.uint8).reshape(samples, width)
    signs = np.unpackbits(packed, axis=1, count=users).astype(np.float64)
    signs *= 2.0
    signs -= 1.0
    return signs


def chunks(samples: int, users: int) -> list[int]:
    """Sizes of chunks of samples that fit in bounded memory for any number of users."""
    size = max(1, CELLS // max(users, 1))
    return [min(size, samples - start) for start in range(0, samples, size)]
