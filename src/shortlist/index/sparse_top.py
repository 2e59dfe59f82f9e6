"""The k best items of requests whose scores are sums over few items; time and memory do not grow with the catalogue.

Only the table of sums has one place per item; requests share it. The GIL is released.
"""

import numpy as np
import torch
from torch import Tensor

from shortlist.index.topk_kernel import MIN_SLACK, compiled, is_excluded, key_of, score_of, select, write_best


def sparse_top(
    keys: Tensor,
    values: Tensor,
    n_items: int,
    k: int,
    exclude: Tensor | None = None,
    base: Tensor | None = None,
    order: Tensor | None = None,
    scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Item rows and scores [B, min(k, N)], best first: as `exact.top` of the matrix of all scores, on a CPU.

    The score of item i is (base[i] + the sum of `values` [B, P] whose key [B, P] is i) / scale; a key of -1 is none.
    `order` has the items by `base`, largest first; without it, only items with a key are found. Equal scores are
    ordered by row. Rows in `exclude` [B, H] (-1 = none) are not found. Where fewer items remain, the row is -1 and the
    score -inf.
    """
    none = torch.empty((len(keys), 0), dtype=torch.int64)
    excluded = (none if exclude is None else exclude).long().sort(dim=1).values
    base = torch.zeros(n_items) if base is None else base
    order = torch.empty(0, dtype=torch.int64) if order is None else order
    scale = torch.ones(len(keys)) if scale is None else scale
    arrays = (
        one.contiguous().numpy(force=True)
        for one in (keys.long(), values.float(), base.float(), order.long(), scale.float(), excluded)
    )
    rows, scores = _sparse_top(*arrays, min(k, n_items))
    return torch.from_numpy(rows), torch.from_numpy(scores)


@compiled
def _sparse_top(keys, values, base, order, scale, exclude, k):  # type: ignore[no-untyped-def]
    rows, scores = np.empty((len(keys), k), np.int64), np.empty((len(keys), k), np.float32)
    sums, marked = np.empty(len(base), np.float32), np.full(len(base), -1, np.int64)
    best = np.empty(k + max(k, MIN_SLACK), np.int64)
    for request in range(len(keys)):
        touched = _summed(keys[request], values[request], request, sums, marked)
        fill = _fill(touched, request, sums, marked, base, order, scale[request], exclude[request], k, best)
        write_best(best, fill, rows[request], scores[request])
    return rows, scores


@compiled
def _summed(keys, values, request, sums, marked):  # type: ignore[no-untyped-def]
    """The distinct items of one request; their sums are in `sums`, and they are marked with its number."""
    touched, count = np.empty(len(keys), np.int64), 0
    for place in range(len(keys)):
        item = keys[place]
        if item < 0:
            continue
        if marked[item] != request:
            marked[item], sums[item] = request, np.float32(0)
            touched[count] = item
            count += 1
        sums[item] += values[place]
    return touched[:count]


@compiled
def _fill(touched, request, sums, marked, base, order, scale, exclude, k, best):  # type: ignore[no-untyped-def]
    """Write the keys of one request and return their number: the k best are among them."""
    fill, edge = 0, np.float32(-np.inf)
    if k == 0:
        return fill
    for item in touched:
        fill, edge = _insert((sums[item] + base[item]) / scale, item, exclude, k, best, fill, edge)
    for item in order:
        score = base[item] / scale
        if score < edge:
            break
        if marked[item] != request:
            fill, edge = _insert(score, item, exclude, k, best, fill, edge)
    return fill


@compiled
def _insert(score, item, exclude, k, best, fill, edge):  # type: ignore[no-untyped-def]
    """Add a key if it may be among the k best; when the places are full, keep the k best."""
    if score < edge or is_excluded(exclude, item):
        return fill, edge
    best[fill] = key_of(score, item)
    fill += 1
    if fill == len(best):
        return k, score_of(select(best, k))
    return fill, edge
