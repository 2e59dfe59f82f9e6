"""By how much a beam finds an item or loses it: the smallest lead of any node on the way down to its leaf."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.diagnose.tree.heap import NOTHING, Levels
from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeShape
from shortlist.index.tree.beam import top


class Margin(NamedTuple):
    """The smallest lead on the way to a leaf, and where it is met."""

    value: Tensor  # [U], at least 0 where the leaf is found; inf where nothing can lose it
    level: Tensor  # int64 [U], the first level with that lead, 0 where none can lose it or there is no leaf


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
    """The least, over levels, of a node's score less the K-th largest among its candidates, for leaves [U].

    `values` [U, nodes] by level, the root first, are what a search orders by, -inf for a node without items. `cand`
    are bool [U, nodes] by level: those of `beam_candidates` give the margin g of a search, None takes whole levels,
    which gives the full-level margin g~ <= g, continuous in the scores, where g jumps. K is `beam` (None: k) at every
    level but the leaves, where it is k. Gradients flow.

    (a) A level with at most K candidates, or fewer than K others with `exclude_self`, cannot lose anything: inf.
    (b) A node need not be a candidate: it was lost above, where its lead was negative already, so the sign holds.
    (c) Search gives ties to the lower node, so a margin of 0 does not say that a leaf is found.
    (d) With `exclude_self` a node is compared with others only: the sign is the same without ties, what is found
    leads by more than 0, and K = 1 means something. Without it the K-th largest may be the node itself, as printed
    in the two-stage paper: then nothing leads by more than 0 at K = 1.
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
    """The leads that `path_margin` takes the least of, [U, H] for levels 1 .. H."""
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
    """The nodes a search of this width scores, bool [U, nodes] by level, the root first; ties go to the lower node."""
    found = [values[0] > NOTHING]
    for level in range(1, shape.height + 1):
        above = values[level - 1].masked_fill(~found[-1], NOTHING)
        scores, at = top(above, beam)
        kept = torch.zeros_like(found[-1]).scatter(1, at, scores > NOTHING)
        children = kept.repeat_interleave(shape.branch, 1)[:, : shape.sizes[level]]
        found.append(children & (values[level] > NOTHING))
    return tuple(found)


def lead(values: Tensor, node: Tensor, among: Tensor, k: int, exclude_self: bool) -> Tensor:
    """The score of a node [U] less the k-th largest `among` [U, nodes] of a level, inf where they are too few."""
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
    wanted = [(len(leaf), size) for size in shape.sizes]
    if [tuple(one.shape) for one in values] != wanted:
        raise DataError(f"scores by level must be {wanted}, got {[tuple(one.shape) for one in values]}")
    if bool((leaf >= shape.n).any()):
        raise DataError(f"leaves must be below {shape.n}, got {int(leaf.max())}")
    for level, one in enumerate(values):
        if bool((broken := one.isnan()).any()):
            user = int(broken.any(1).nonzero()[0])
            raise DataError(f"level {level} has a score that is no number, first for user {user}")
