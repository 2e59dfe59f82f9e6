"""Labels of the nodes on the path to an item that make the best item below a node speak for it (DTR, section 4.2).

An estimator scores all items for a history, as log probabilities up to a constant, or names the best of them (`Top`).
Modes:
    strict      1 where no item below the node scores higher than the item itself (eq. 14); equal scores count as best
    one_step    1 where the path goes to the best child, whatever follows below; what the authors' code does
    normalised  strict, divided by the sum over the level of the largest probability below each node (eq. 16)
    none        1 everywhere
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree

ScoreAll = Callable[[Tensor], Tensor]
"""Histories [U, K] of items, -1 = padding -> scores [U, n_items]."""
Estimator = Callable[[Tensor], "Tensor | Top"]
"""The same, or the best items of each history."""

MODES = ("strict", "one_step", "normalised", "none")
CELLS = 2**26  # scores held at a time while labels of all instances are made


class Top(NamedTuple):
    """The best items of each history in any order: nobody who is not named is better than the worst who is.

    Enough for strict labels, from an index or a list that somebody else made, where scoring a whole catalogue for every
    instance is too much.
    """

    items: Tensor  # int64 [U, M], -1 = none
    scores: Tensor  # [U, M]


class Pairs(Protocol):
    """Histories and what they led to, as far as labels need them."""

    def __len__(self) -> int: ...

    def histories(self, rows: Tensor) -> Tensor:
        """Those of some instances [U, K], -1 = padding."""

    def labels(self, rows: Tensor) -> Tensor:
        """The items that came next [U]."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of all instances under one assignment of items to leaves; worthless under another `version`."""

    mode: str
    version: int
    values: Tensor  # uint8 [n], the first true level (strict) or whether there is a leaf (none); else [n, H]
    exact: Tensor | None = (
        None  # bool [n] where they are certain, if only the best items were named; None = everywhere
    )

    def weights(self, rows: Tensor, levels: tuple[int, ...]) -> Tensor:
        """The labels of some instances at some levels: float32 [U, L]."""
        if self.mode == "strict":
            return (_numbers(levels, rows.device) >= self.values[rows, None]).float()
        if self.mode == "none":
            return self.values[rows, None].float().expand(-1, len(levels))
        return self.values[rows[:, None], _numbers(levels, rows.device) - 1].float()

    def fits(self, tree: Tree) -> bool:
        """Whether they were made for this assignment."""
        return self.version == tree.version


@torch.no_grad()
def rectified(
    tree: Tree, pairs: Pairs, estimate: Estimator, mode: str = "strict", cells: int = CELLS
) -> Labels:
    """The labels of all instances at all levels, so many at a time that no more than `cells` scores are held."""
    _check_mode(mode)
    chunk = max(cells // max(tree.n_items, tree.shape.n), 1)
    parts = [
        _stored(tree, pairs, rows, estimate, mode)
        for rows in torch.split(torch.arange(len(pairs), device=tree.device), chunk)
    ]
    values, exact = zip(*parts, strict=True)
    return Labels(mode, tree.version, torch.cat(values), None if exact[0] is None else torch.cat(exact))


def first_true_level(scores: Tensor, items: Tensor, tree: Tree) -> Tensor:
    """The level from which on the item is the best below its ancestor: uint8 [U], scores [U, n_items], items [U].

    One more than the depth of the lowest node that the item shares with a better one; height + 1 for an item that has
    no leaf, so that none of its labels is true.
    """
    leaves = tree.leaves(items)
    peaks = path_peaks(by_leaf(scores, tree), leaves.clamp(min=0), tree.shape)  # [U, H]
    first = 1 + (peaks > peaks[:, -1:]).sum(1)
    return torch.where(leaves >= 0, first, tree.shape.height + 1).to(torch.uint8)


def first_level_by_top(top: Top, items: Tensor, tree: Tree) -> tuple[Tensor, Tensor]:
    """`first_true_level` as far as the best items tell: uint8 [U], and bool [U] where it is certain.

    It is where the item is named itself, and where a better one shares its parent. Else an item that is not named may
    be better too, and the labels are true only as far as is known.
    """
    shape, leaves, named = tree.shape, tree.leaves(items), tree.leaves(top.items)
    there = top.items >= 0  # [U, M]
    own = there & (top.items == items[:, None])
    known = own.any(1)
    worst = top.scores.masked_fill(~there, torch.inf).amin(1)  # who is not named may be as good as that
    score = torch.where(known, top.scores.masked_fill(~own, -torch.inf).amax(1), worst)
    better = (named >= 0) & (top.scores > score[:, None])
    first = torch.ones_like(items)
    for level in range(1, shape.height):
        above = shape.ancestor(leaves.clamp(min=0), level)
        shared = shape.ancestor(named.clamp(min=0), level) == above[:, None]
        first = torch.where((better & shared).any(1), level + 1, first)
    exact = known | (first == shape.height) | (leaves < 0)
    return torch.where(leaves >= 0, first, shape.height + 1).to(torch.uint8), exact


def label_weights(
    scores: Tensor | Top, items: Tensor, tree: Tree, levels: tuple[int, ...], mode: str = "strict"
) -> Tensor:
    """Labels of the nodes on the paths to items [U] at the levels: float32 [U, L]; 0 for an item without a leaf."""
    _check_mode(mode)
    if isinstance(scores, Top):
        _check_strict(mode)
        first, _ = first_level_by_top(scores, items, tree)
        return (_numbers(levels, items.device) >= first[:, None]).float()
    chosen = [level - 1 for level in levels]
    leaves = tree.leaves(items)
    there = (leaves >= 0)[:, None].float()
    if mode == "none":
        return there.expand(-1, len(levels))
    laid = by_leaf(scores, tree)
    peaks = path_peaks(laid, leaves.clamp(min=0), tree.shape)  # [U, H]
    if mode == "one_step":
        kept = F.pad(peaks[:, 1:] >= peaks[:, :-1], (0, 1), value=True)
    else:
        kept = peaks <= peaks[:, -1:]
    weights = torch.stack([kept[:, i] for i in chosen], 1) * there
    return weights / total_peaks(laid, tree.shape, levels) if mode == "normalised" else weights


def mean_label_per_level(labels: Labels, levels: tuple[int, ...], chunk: int = 2**20) -> Tensor:
    """The mean label of each level over all instances: float64 [L]. Strict labels starve the top of the tree."""
    rows = torch.arange(len(labels.values), device=labels.values.device)
    sums = [labels.weights(some, levels).double().sum(0) for some in torch.split(rows, chunk)]
    return torch.stack(sums).sum(0) / len(rows)


def by_leaf(scores: Tensor, tree: Tree) -> Tensor:
    """Scores of items [U, n_items] in the order of leaves [U, slots], -inf at free slots."""
    laid = scores.index_select(1, tree.item_of_leaf.clamp(min=0).long())
    return laid.masked_fill_(tree.item_of_leaf < 0, -torch.inf)


def path_peaks(laid: Tensor, leaves: Tensor, shape: TreeShape) -> Tensor:
    """The largest score below each node on the paths to leaves [U]: [U, slots] -> [U, H], level 1 first."""
    found, peaks = [], laid
    for level in range(shape.height, 0, -1):
        found.append(peaks.gather(1, shape.ancestor(leaves, level)[:, None])[:, 0])
        peaks = _raised(peaks, shape.branch)
    return torch.stack(found[::-1], 1)


def total_peaks(laid: Tensor, shape: TreeShape, levels: tuple[int, ...]) -> Tensor:
    """The sum over each level of the largest probability below each node: [U, slots] scores -> float32 [U, L]."""
    found, peaks = {}, laid.float().softmax(1)
    for level in range(shape.height, 0, -1):
        found[level] = peaks.sum(1)
        peaks = _raised(peaks, shape.branch)
    return torch.stack([found[level] for level in levels], 1)


def _stored(
    tree: Tree, pairs: Pairs, rows: Tensor, estimate: Estimator, mode: str
) -> tuple[Tensor, Tensor | None]:
    """Labels of some instances in the smallest form that holds them, and where they are certain; None = everywhere."""
    items = pairs.labels(rows)
    if mode == "none":
        return (tree.leaves(items) >= 0).to(torch.uint8), None
    scores = estimate(pairs.histories(rows))
    if isinstance(scores, Top):
        _check_strict(mode)
        return first_level_by_top(scores, items, tree)
    if mode == "strict":
        return first_true_level(scores, items, tree), None
    made = label_weights(scores, items, tree, tuple(range(1, tree.shape.height + 1)), mode)
    return made.to(torch.uint8) if mode == "one_step" else made, None


def _raised(peaks: Tensor, branch: int) -> Tensor:
    """The largest of each group of siblings: [U, N] -> [U, parents]."""
    padded = F.pad(peaks, (0, -peaks.shape[1] % branch), value=-torch.inf)
    return padded.view(len(peaks), -1, branch).amax(2)


@lru_cache(maxsize=256)
def _numbers(levels: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(levels, device=device)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ConfigError(f"mode of rectified labels must be one of {', '.join(MODES)}, got {mode!r}")


def _check_strict(mode: str) -> None:
    if mode != "strict":
        raise ConfigError(f"rectified labels from the best items alone must be strict, got the mode {mode!r}")
