"""The margin of beam search: the smallest lead of any node on the path to a leaf."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.diagnose.tree.max_heap import NOTHING, Levels
from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeShape
from shortlist.index.tree.beam import top


class Margin(NamedTuple):
    """The smallest lead on the path to a leaf, and its level."""

    value: Tensor  # [U], at least 0 where the leaf is found; inf where it cannot be lost
    level: Tensor  # int64 [U], the first level with that lead, 0 where it cannot be lost or there is no leaf


def path_margin(
    shape: TreeShape,
    values: Levels,
    leaf: Tensor,
    k: int,
    *,
    beam: int | None = None,
    cand: Sequence[Tensor] | None = None,
    exclude_self: bool = True,
) -> Margin:
    """The minimum over levels of a node's score minus the K-th largest among its candidates, for leaves [U].

    `values` [U, nodes] by level, the root first, are the scores a search orders by, -inf for a node without items.
    `cand` are bool [U, nodes] by level: those of `beam_candidates` give the margin g of a search; None uses whole
    levels, which gives the full-level margin g~ <= g, continuous in the scores, where g jumps. K is `beam` (None: k) at
    every level but the leaves, where it is k. Differentiable.

    (a) A level with at most K candidates, or fewer than K others with `exclude_self`, cannot lose anything: inf.
    (b) A node need not be a candidate: then it was lost at a higher level with a negative lead, so the sign holds.
    (c) Search gives ties to the lower node, so a margin of 0 does not imply that a leaf is found.
    (d) With `exclude_self` a node is compared with others only: the sign is the same without ties, a found leaf has a
    positive lead, and K = 1 is meaningful. Without it the K-th largest may be the node itself, as printed in the
    two-stage paper: then no lead is positive at K = 1.
    The leaf is part of the path. An item without a leaf (-1, or a slot without an item) has margin -inf at level 0.
    """
    leads = level_margins(shape, values, leaf, k, beam=beam, cand=cand, exclude_self=exclude_self)
    absent = (leaf < 0) | (_at(values[-1], leaf) == NOTHING)
    if not shape.height:
        value, at = values[0].new_full((len(leaf),), torch.inf), torch.zeros_like(leaf, dtype=torch.int64)
    else:
        value, at = leads.min(1)
    value = value.masked_fill(absent, NOTHING)
    return Margin(value, torch.where(torch.isinf(value), 0, at + 1))


def level_margins(
    shape: TreeShape,
    values: Levels,
    leaf: Tensor,
    k: int,
    *,
    beam: int | None = None,
    cand: Sequence[Tensor] | None = None,
    exclude_self: bool = True,
) -> Tensor:
    """The leads that `path_margin` minimizes, [U, H] for levels 1 .. H."""
    beam = k if beam is None else beam
    _check(shape, values, leaf, min(k, beam))
    leads = []
    for level in range(1, shape.height + 1):
        among = values[level] > NOTHING if cand is None else cand[level] & (values[level] > NOTHING)
        node = shape.ancestor(leaf.clamp(min=0), level)
        width = k if level == shape.height else beam
        leads.append(lead(values[level], node, among, width, exclude_self))
    return torch.stack(leads, 1) if leads else values[0].new_empty((len(leaf), 0))


def beam_candidates(shape: TreeShape, values: Levels, beam: int) -> tuple[Tensor, ...]:
    """The nodes that a search of this width scores, bool [U, nodes] by level, root first; ties go to the lower node."""
    found = [values[0] > NOTHING]
    for level in range(1, shape.height + 1):
        above = values[level - 1].masked_fill(~found[-1], NOTHING)
        scores, at = top(above, beam)
        kept = torch.zeros_like(found[-1]).scatter(1, at, scores > NOTHING)
        children = kept.repeat_interleave(shape.branch, 1)[:, : shape.sizes[level]]
        found.append(children & (values[level] > NOTHING))
    return tuple(found)


def lead(values: Tensor, node: Tensor, among: Tensor, k: int, exclude_self: bool) -> Tensor:
    """The score of a node [U] minus the k-th largest `among` [U, nodes] of a level, inf where there are too few."""
    if exclude_self:
        among = among.scatter(1, node[:, None], False)
    enough = among.sum(1) >= (k if exclude_self else k + 1)
    if k > values.shape[1]:
        return values.new_full((len(values),), torch.inf)
    rival = values.masked_fill(~among, NOTHING).topk(k, dim=1).values[:, -1]
    return torch.where(enough, _at(values, node) - rival, torch.inf)


def _at(values: Tensor, node: Tensor) -> Tensor:
    return values.gather(1, node.clamp(min=0)[:, None])[:, 0]


def _check(shape: TreeShape, values: Levels, leaf: Tensor, k: int) -> None:
    if k < 1:
        raise ConfigError(f"k and beam must be at least 1, got {k}")
    expected = [(len(leaf), size) for size in shape.sizes]
    if [tuple(level.shape) for level in values] != expected:
        raise DataError(f"scores by level must be {expected}, got {[tuple(level.shape) for level in values]}")
    if bool((leaf >= shape.n).any()):
        raise DataError(f"leaves must be below {shape.n}, got {int(leaf.max())}")
    for level, scores in enumerate(values):
        if bool((broken := scores.isnan()).any()):
            user = int(broken.any(1).nonzero()[0])
            raise DataError(f"level {level} has a NaN score, first for user {user}")
