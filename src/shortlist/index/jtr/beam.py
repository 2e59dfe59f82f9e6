"""Beam search in a tree of leaves, then exact scoring of the items of the reached leaves."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, DataError
from shortlist.index.jtr.index import JTRIndex
from shortlist.index.tree.beam import top

NOTHING = float("-inf")
GATHERED = 1 << 24  # floats gathered at once


@dataclass(frozen=True, eq=False)
class Found:
    """Items [B, k] with their inner products, best first, padded with -1 and -inf."""

    items: Tensor
    scores: Tensor


@torch.no_grad()
def search(
    index: JTRIndex,
    vectors: Tensor,
    queries: Tensor,
    k: int,
    beam: int,
    exclude: Tensor | None = None,
) -> Found:
    """The k best items by the product of `queries` [B, D] with `vectors` [N, D], among the `beam` reached leaves.

    An item in several leaves counts once; items in `exclude` [B, H] are left out; ties are ordered by row. With a beam
    as wide as the number of leaves this is exact search.
    """
    _check(index, vectors, queries, k, beam)
    each = (
        min(beam, len(index.tree.leaves))
        * max(index.tree.widest, len(index.tree.onward[0]))
        * vectors.shape[1]
    )
    parts, step = [], max(1, GATHERED // max(each, 1))
    for start in range(0, len(queries), step):
        batch = slice(start, start + step)
        excluded = None if exclude is None else exclude[batch]
        parts.append(_best(index, vectors, queries[batch], k, beam, excluded))
    if not parts:
        parts = [Found(queries.new_empty((0, k)).long(), queries.new_empty((0, k)))]
    return Found(torch.cat([part.items for part in parts]), torch.cat([part.scores for part in parts]))


@torch.no_grad()
def descend(index: JTRIndex, queries: Tensor, beam: int) -> list[Tensor]:
    """The nodes kept at each depth from 1 on, best first, int64 [B, <= beam] each; -1 = no node.

    A leaf above the last depth is kept as it is and keeps competing. Ties are ordered by parent, then by child.
    """
    here = torch.zeros((len(queries), 1), dtype=torch.int64, device=queries.device)
    kept = []
    for _ in range(index.tree.height):
        nodes = index.tree.onward[here].flatten(1)  # [B, W * branch]
        scores = torch.einsum("bd,bwd->bw", queries, index.nodes[nodes.clamp(min=0)])
        scores, at = top(scores.masked_fill(nodes < 0, NOTHING), beam)
        here = nodes.gather(1, at).masked_fill(scores == NOTHING, -1)
        kept.append(here)
    return kept


def reached(index: JTRIndex, queries: Tensor, beam: int) -> Tensor:
    """The leaves at the end of the beam search, best first, int64 [B, <= beam]; -1 = no leaf."""
    root = torch.zeros((len(queries), 1), dtype=torch.int64, device=queries.device)
    return [root, *descend(index, queries, beam)][-1]


def lost_by_beam(
    index: JTRIndex, vectors: Tensor, queries: Tensor, k: int, beam: int, exclude: Tensor | None = None
) -> float:
    """The share of the exact top k that beam search over `beam` leaves misses."""
    best = search(index, vectors, queries, k, len(index.tree.leaves), exclude).items
    found = search(index, vectors, queries, k, beam, exclude).items
    return 1.0 - float(is_in(best, found).sum()) / max(int((best >= 0).sum()), 1)


def _best(
    index: JTRIndex, vectors: Tensor, queries: Tensor, k: int, beam: int, exclude: Tensor | None
) -> Found:
    rows = _items(index, reached(index, queries, beam))  # [B, M], ascending
    there = rows < index.tree.n_items
    there[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    if exclude is not None:
        there &= ~is_in(rows, exclude)
    known = (
        vectors[torch.where(there, rows, 0)]
        if len(vectors)
        else vectors.new_empty((*rows.shape, vectors.shape[1]))
    )
    scores = torch.einsum("bd,bmd->bm", queries, known).masked_fill(~there, NOTHING)
    scores, at = top(scores, k)
    items = rows.gather(1, at).masked_fill(scores == NOTHING, -1)
    short, pad = (0, k - scores.shape[1]), torch.nn.functional.pad
    return Found(pad(items, short, value=-1), pad(scores, short, value=NOTHING))


def _items(index: JTRIndex, leaves: Tensor) -> Tensor:
    """All items of leaves [B, W], ascending, an item of two leaves twice [B, M]; padded with n_items."""
    tree = index.tree
    steps = torch.arange(tree.widest, device=leaves.device)
    known = leaves.clamp(min=0)
    there = (steps < tree.sizes[known][:, :, None]) & (leaves >= 0)[:, :, None]  # [B, W, most of a leaf]
    at = torch.where(there, tree.offsets[known].long()[:, :, None] + steps, 0)
    rows = torch.where(there, tree.rows[at].long(), tree.n_items) if len(tree.rows) else there.long()
    rows = rows.flatten(1).sort(dim=1).values
    return rows[:, : int((rows < tree.n_items).sum(1).max()) if len(rows) else 0]


def _check(index: JTRIndex, vectors: Tensor, queries: Tensor, k: int, beam: int) -> None:
    if k < 1 or beam < 1:
        raise ConfigError(f"k and beam must be at least 1, got k={k!r} and beam={beam!r}")
    width = index.nodes.shape[1]
    if vectors.shape != (index.tree.n_items, width) or queries.dim() != 2 or queries.shape[1] != width:
        raise DataError(
            f"jtr: expected vectors of {index.tree.n_items} items and of queries, each of width {width}, "
            f"got {list(vectors.shape)} and {list(queries.shape)}"
        )
