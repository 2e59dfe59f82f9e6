"""The k largest values of every row of a matrix on one CPU core; the GIL is released."""

import numpy as np

from shortlist.index.topk_kernel import (
    MIN_SLACK,
    Floats,
    Integers,
    compiled,
    is_excluded,
    key_of,
    score_of,
    select,
    write_best,
)


def row_top(scores: Floats, k: int, exclude: Integers) -> tuple[Integers, Floats]:
    """Positions and values [B, k] of the k <= N best of each row of `scores` [B, N], as in `exact.top`."""
    found: tuple[Integers, Floats] = _row_top(
        scores, k, np.sort(exclude, axis=1) if exclude.shape[1] else exclude
    )
    return found


@compiled
def _row_top(scores, k, exclude):  # type: ignore[no-untyped-def]
    """Every value is read once; only values above the running k-th best become keys."""
    positions, values = np.empty((len(scores), k), np.int64), np.empty((len(scores), k), np.float32)
    keys = np.empty(k + max(k, MIN_SLACK), np.int64)
    for row in range(len(scores)):
        fill = _fill(scores[row], k, exclude[row], keys)
        write_best(keys, fill, positions[row], values[row])
    return positions, values


@compiled
def _fill(scores, k, exclude, keys):  # type: ignore[no-untyped-def]
    """Write the keys of one row and return their number: the k best are among them.

    Positions ascend, so a value equal to the k-th best comes too late. NaN is above every value.
    """
    fill, threshold, is_full = 0, np.float32(-np.inf), False
    for at in range(len(scores)):
        score = scores[at]
        if is_full and score <= threshold:
            continue
        if is_excluded(exclude, at):
            score = np.float32(-np.inf)
        keys[fill] = key_of(np.float32(np.nan) if np.isnan(score) else score, at)
        fill += 1
        if fill == len(keys):
            threshold, is_full, fill = score_of(select(keys, k)), True, k
    return fill
