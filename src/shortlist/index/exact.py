"""Exact search by inner product, in blocks, so that memory does not grow with the catalogue."""

import torch
from torch import Tensor


def search(
    vectors: Tensor, queries: Tensor, k: int, block: int = 1 << 18, exclude: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The k items [B, k] of `vectors` [N, D] with the largest products with `queries` [B, D], best first, and those.

    There are min(k, N) places. Equal products are ordered by row, whatever the block size. Rows in `exclude` [B, H]
    are not found, -1 there is no row; nor are products that are no number or -inf. Where nothing is left to be found
    stand row -1 and -inf.
    """
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
