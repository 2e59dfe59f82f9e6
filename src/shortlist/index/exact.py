"""Exact search by inner product: memory does not grow with the catalogue, nothing of size [B, N] is kept."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from shortlist.index.simd_products import SIDE
from shortlist.index.topk_kernel import SPARE, scan

ROOM = 1 << 26  # bytes for the best so far of queries that are asked together
TOGETHER = 256  # queries at most: their vectors stay in the second-level cache
WORTH_THREADS = 1 << 22  # products: fewer are done before a thread has begun


def search(
    vectors: Tensor, queries: Tensor, k: int, block: int = 1 << 18, exclude: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The k items [B, k] of `vectors` [N, D] with the largest products with `queries` [B, D], best first, and those.

    There are min(k, N) places. Equal products are ordered by row. Rows in `exclude` [B, H] are not found, -1 there is
    no row; nor are products that are no number or -inf, nor anything for a query that is not all finite numbers. Where
    nothing is left to be found stand row -1 and -inf.

    On a CPU float32 goes through a compiled scan, on as many threads as torch has where that pays: what a query finds
    has the same bits alone, in any batch and on any number of threads. All else, a GPU above all, goes through torch
    in blocks of `block` vectors.
    """
    k = min(k, len(vectors))
    if k and len(queries) and _fits_scan(vectors, queries):
        return _scanned(vectors.detach(), queries.detach(), k, exclude)
    return in_blocks(vectors, queries, k, block, exclude)


def in_blocks(
    vectors: Tensor, queries: Tensor, k: int, block: int = 1 << 18, exclude: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What `search` finds, by torch, on any device and for any type of number."""
    queries = queries.masked_fill(~queries.isfinite().all(1, keepdim=True), torch.nan)
    best_scores = queries.new_empty((len(queries), 0))
    best_rows = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    for start in range(0, len(vectors), block):
        scores = queries @ vectors[start : start + block].T  # [B, N]
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        if exclude is not None:
            scores = without(scores, exclude.to(scores.device) - start)
        rows = torch.arange(start, start + scores.shape[1], device=scores.device).expand(scores.shape)
        best_scores = torch.cat([best_scores, scores], dim=1)
        best_rows = torch.cat([best_rows, rows], dim=1)
        best_scores, at = top(best_scores, k)
        best_rows = best_rows.gather(1, at)
    return best_rows.masked_fill(best_scores == -torch.inf, -1), best_scores


def warm() -> None:
    """Compile the scan now, not at the first query."""
    for count in (1, 2):
        search(torch.zeros(1, 1), torch.zeros(count, 1), 1)


def without(scores: Tensor, rows: Tensor) -> Tensor:
    """Scores [B, N] with -inf at rows [B, H] of their own; what is no row 0..N-1 is no place."""
    wide = torch.nn.functional.pad(scores, (0, 1))  # a place for what is no row
    at = torch.where((rows < 0) | (rows >= scores.shape[1]), scores.shape[1], rows)
    return wide.scatter(1, at, -torch.inf)[:, :-1]


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest [B, k], best first, and where they stand; equal ones by position.

    `topk` finds them fast but promises nothing about ties: those at the k-th value are chosen anew by position.
    """
    k = min(k, scores.shape[1])
    values, at = scores.topk(k, dim=1)
    if k == 0:
        return values, at
    edge = values[:, -1:]
    if bool(((scores >= edge).sum(1) > k).any()):
        at = _first_at_the_edge(scores, edge, k)
    else:
        at = at.sort(dim=1).values
    order = scores.gather(1, at).sort(dim=1, descending=True, stable=True).indices
    at = at.gather(1, order)
    return scores.gather(1, at), at


def _first_at_the_edge(scores: Tensor, edge: Tensor, k: int) -> Tensor:
    """All places above the edge and the first ones on it, k together, in order [B, k]; no sort of the whole row."""
    above, level = scores > edge, scores == edge
    room = k - above.sum(1, keepdim=True)
    chosen = above | (level & (level.cumsum(1) <= room))
    return chosen.nonzero()[:, 1].view(len(scores), k)


def _fits_scan(vectors: Tensor, queries: Tensor) -> bool:
    both = (vectors, queries)
    plain = all(one.device.type == "cpu" and one.dtype == torch.float32 for one in both)
    return plain and not (torch.is_grad_enabled() and any(one.requires_grad for one in both))


def _scanned(vectors: Tensor, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
    items, asked = vectors.contiguous().numpy(), queries.contiguous().numpy()
    none = np.empty((len(asked), 0), np.int64) if exclude is None else exclude.long().numpy(force=True)
    threads = torch.get_num_threads() if len(items) * len(asked) >= WORTH_THREADS else 1
    size = _together(len(asked), k, threads)
    if len(asked) <= size:
        rows, scores = scan(items, asked, k, none)
    else:
        parts = [slice(start, start + size) for start in range(0, len(asked), size)]
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda part: scan(items, asked[part], k, none[part]), parts))
        rows, scores = (np.concatenate(one) for one in zip(*found, strict=True))
    return torch.from_numpy(rows), torch.from_numpy(scores)


def _together(count: int, k: int, threads: int) -> int:
    """How many of `count` queries are asked in one scan: all threads have some, and memory stays bounded."""
    affordable = max(1, ROOM // (8 * (k + max(k, SPARE))))
    share = -(-count // threads)
    return min(-(-share // SIDE) * SIDE, TOGETHER, affordable)
