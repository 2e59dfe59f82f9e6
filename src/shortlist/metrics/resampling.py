"""Resampled sums of many columns at once: one set of bootstrap samples or sign flips, and one matrix product."""

import numpy as np
from numpy.typing import NDArray

CELLS = 1 << 22  # weights held in memory at a time

Floats = NDArray[np.float64]


def resampled_means(values: Floats, seed: int, samples: int) -> Floats:
    """Means of the columns of `values` [U, M] over bootstrap samples of the rows [samples, M].

    The same seed and number of rows give the same samples, so columns of different calls are paired.
    """
    users = len(values)
    rng = np.random.default_rng([seed, 0])
    sums = [repeats(rng, size, users) @ values for size in chunks(samples, users)]
    return np.concatenate(sums) / users


def repeats(rng: np.random.Generator, samples: int, users: int) -> Floats:
    """How often each user is in each sample of `users` users with replacement [samples, U]."""
    rows = rng.integers(0, users, (samples, users))
    rows += np.arange(samples)[:, None] * users
    return np.bincount(rows.ravel(), minlength=samples * users).reshape(samples, users).astype(np.float64)


def flipped_sums(values: Floats, seed: int, samples: int) -> Floats:
    """Sums of the columns of `values` [U, M] after random sign flips of the rows [samples, M]."""
    users = len(values)
    rng = np.random.default_rng([seed, 1])
    return np.concatenate([_signs(rng, size, users) @ values for size in chunks(samples, users)])


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
