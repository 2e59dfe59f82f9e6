"""Exact search by inner product; memory does not grow with the catalogue, no [B, N] matrix is stored."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.index.row_top import row_top
from shortlist.index.simd_products import SIDE
from shortlist.index.topk_kernel import MIN_SLACK, scan

BUFFER_BYTES = 1 << 26  # memory for the running top k of queries scanned together
MAX_QUERIES = 256  # queries per scan: their vectors stay in the second-level cache
MIN_PRODUCTS_FOR_THREADS = 1 << 22  # smaller searches end before a thread has started


def search(
    vectors: Tensor, queries: Tensor, k: int, block: int = 1 << 18, exclude: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Rows and inner products [B, min(k, N)] of the k best of `vectors` [N, D] for `queries` [B, D], best first.

    Equal products are ordered by row. Rows in `exclude` [B, H] (-1 = none) are not returned, nor products that are NaN
    or -inf, nor anything for a query with a non-finite value. Where fewer items remain, the row is -1 and the score
    -inf.

    On a CPU, float32 goes through a compiled scan, on torch's number of threads where that is faster: the result of a
    query has the same bits alone, in any batch and on any number of threads. Everything else, GPUs included, goes
    through torch in blocks of `block` vectors.
    """
    k = min(k, len(vectors))
    if k and len(queries) and _fits_scan(vectors, queries):
        return _scanned(vectors, queries, k, exclude)
    return in_blocks(vectors, queries, k, block, exclude)


def in_blocks(
    vectors: Tensor, queries: Tensor, k: int, block: int = 1 << 18, exclude: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The result of `search` by torch operations, on any device and for any dtype."""
    queries = queries.masked_fill(~queries.isfinite().all(1, keepdim=True), torch.nan)
    best_scores = queries.new_empty((len(queries), 0))
    best_rows = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    for start in range(0, len(vectors), block):
        scores = queries @ vectors[start : start + block].T  # [B, N]
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        if exclude is not None:
            scores = mask_rows(scores, exclude.to(scores.device) - start)
        rows = torch.arange(start, start + scores.shape[1], device=scores.device).expand(scores.shape)
        best_scores = torch.cat([best_scores, scores], dim=1)
        best_rows = torch.cat([best_rows, rows], dim=1)
        best_scores, at = top(best_scores, k)
        best_rows = best_rows.gather(1, at)
    return best_rows.masked_fill(best_scores == -torch.inf, -1), best_scores


def warmup() -> None:
    """Compile the kernel now, not at the first query."""
    for count in (1, 2):
        search(torch.zeros(1, 1), torch.zeros(count, 1), 1)


def mask_rows(scores: Tensor, rows: Tensor) -> Tensor:
    """Scores [B, N] with -inf at `rows` [B, H]; rows outside 0..N-1 are ignored."""
    wide = torch.nn.functional.pad(scores, (0, 1))  # one more column, for rows outside the range
    at = torch.where((rows < 0) | (rows >= scores.shape[1]), scores.shape[1], rows)
    return wide.scatter(1, at, -torch.inf)[:, :-1]


def top(scores: Tensor, k: int, exclude: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k largest [B, min(k, N)] of `scores` [B, N], best first, with their positions; ties are ordered by position.

    Scores at `exclude` [B, H] count as -inf; other rows than 0..N-1 are ignored there. NaN is above every other score.
    On a CPU, float32 goes through a compiled pass, everything else through torch.
    """
    k = min(k, scores.shape[1])
    if not _is_plain(scores):
        return _top_by_torch(scores if exclude is None else mask_rows(scores, exclude), k)
    at, values = row_top(scores.numpy(force=scores.requires_grad), k, _rows(exclude, len(scores)))
    return torch.from_numpy(values), torch.from_numpy(at)


def _top_by_torch(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`topk` is fast but leaves the order of ties open: ties at the k-th value are selected again by position."""
    values, at = scores.topk(k, dim=1)
    if k == 0:
        return values, at
    edge = values[:, -1:]
    if bool(((scores >= edge).sum(1) > k).any()):
        at = _first_ties(scores, edge, k)
    else:
        at = at.sort(dim=1).values
    order = scores.gather(1, at).sort(dim=1, descending=True, stable=True).indices
    at = at.gather(1, order)
    return scores.gather(1, at), at


def _first_ties(scores: Tensor, edge: Tensor, k: int) -> Tensor:
    """Positions of all values above `edge` and the first ones equal to it, k in total, ascending [B, k]."""
    above, level = scores > edge, scores == edge
    room = k - above.sum(1, keepdim=True)
    chosen = above | (level & (level.cumsum(1) <= room))
    return chosen.nonzero()[:, 1].view(len(scores), k)


def _fits_scan(vectors: Tensor, queries: Tensor) -> bool:
    return _is_plain(vectors) and _is_plain(queries)


def _is_plain(tensor: Tensor) -> bool:
    """Few and cheap questions: with the caches full of vectors, each takes microseconds."""
    plain = tensor.is_cpu and tensor.dtype is torch.float32
    return plain and not (tensor.requires_grad and torch.is_grad_enabled())


def _scanned(vectors: Tensor, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
    items, users = _array(vectors), _array(queries)
    excluded = _rows(exclude, len(users))
    threads = torch.get_num_threads() if len(items) * len(users) >= MIN_PRODUCTS_FOR_THREADS else 1
    size = _queries_per_scan(len(users), k, threads)
    if len(users) <= size:
        rows, scores = scan(items, users, k, excluded)
    else:
        parts = [slice(start, start + size) for start in range(0, len(users), size)]
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda part: scan(items, users[part], k, excluded[part]), parts))
        rows, scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return torch.from_numpy(rows), torch.from_numpy(scores)


def _rows(exclude: Tensor | None, count: int) -> NDArray[np.int64]:
    return np.empty((count, 0), np.int64) if exclude is None else exclude.long().numpy(force=True)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.contiguous().numpy(force=tensor.requires_grad)


def _queries_per_scan(count: int, k: int, threads: int) -> int:
    """How many of `count` queries one scan takes: every thread gets some, and memory stays bounded."""
    affordable = max(1, BUFFER_BYTES // (8 * (k + max(k, MIN_SLACK))))
    share = -(-count // threads)
    return min(-(-share // SIDE) * SIDE, MAX_QUERIES, affordable)
