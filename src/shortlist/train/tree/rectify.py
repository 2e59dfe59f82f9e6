"""Rectified labels: a node on the path to the target is positive only where the target is the best item below it.

DTR, section 4.2. An estimator returns scores of all items for a history, log probabilities up to a constant, or the
best items alone (`Top`). Modes:
    strict      1 where no item below the node scores higher than the item itself (eq. 14); equal scores count as best
    one_step    1 where the path goes to the best child, at this step only; as in the authors' code
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
CELLS = 2**26  # scores in memory at a time


class Top(NamedTuple):
    """The best items of each history in any order: no other item scores higher than the lowest of them.

    Enough for strict labels, e.g. from an index, where scoring the whole catalogue for every instance costs too much.
    """

    items: Tensor  # int64 [U, M], -1 = none
    scores: Tensor  # [U, M]


class HistoryTargets(Protocol):
    """Histories with their next item."""

    def __len__(self) -> int: ...

    def histories(self, rows: Tensor) -> Tensor:
        """Histories of some instances [U, K], -1 = padding."""

    def targets(self, rows: Tensor) -> Tensor:
        """The next items [U]."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of all instances for one `version` of the tree."""

    mode: str
    version: int
    values: Tensor  # uint8 [n], the first true level (strict) or whether there is a leaf (none); else [n, H]
    exact: Tensor | None = (
        None  # bool [n]: the label is certain though the estimator gave the best items only
    )

    def weights(self, rows: Tensor, levels: tuple[int, ...]) -> Tensor:
        """The labels of some instances at some levels: float32 [U, L]."""
        if self.mode == "strict":
            return (_numbers(levels, rows.device) >= self.values[rows, None]).float()
        if self.mode == "none":
            return self.values[rows, None].float().expand(-1, len(levels))
        return self.values[rows[:, None], _numbers(levels, rows.device) - 1].float()

    def fits(self, tree: Tree) -> bool:
        """Whether they belong to this version of the tree."""
        return self.version == tree.version


@torch.no_grad()
def rectified(
    tree: Tree, pairs: HistoryTargets, estimate: Estimator, mode: str = "strict", cells: int = CELLS
) -> Labels:
    """The labels of all instances at all levels, in chunks of at most `cells` scores."""
    _check_mode(mode)
    chunk = max(cells // max(tree.n_items, tree.shape.n), 1)
    parts = [
        _stored(tree, pairs, rows, estimate, mode)
        for rows in torch.split(torch.arange(len(pairs), device=tree.device), chunk)
    ]
    values, exact = zip(*parts, strict=True)
    return Labels(mode, tree.version, torch.cat(values), None if exact[0] is None else torch.cat(exact))


def first_true_level(scores: Tensor, items: Tensor, tree: Tree) -> Tensor:
    """The first level at which the item is the best below its ancestor: uint8 [U], scores [U, n_items], items [U].

    One more than the depth of the lowest common ancestor with a better item; height + 1 for an item without a leaf, so
    that none of its labels is true.
    """
    leaves = tree.leaves(items)
    peaks = path_peaks(by_leaf(scores, tree), leaves.clamp(min=0), tree.shape)  # [U, H]
    first = 1 + (peaks > peaks[:, -1:]).sum(1)
    return torch.where(leaves >= 0, first, tree.shape.height + 1).to(torch.uint8)


def first_level_by_top(top: Top, items: Tensor, tree: Tree) -> tuple[Tensor, Tensor]:
    """`first_true_level` from the best items alone: uint8 [U], and bool [U] where it is certain.

    It is certain if the item is among the best itself, or if a better item shares its parent. Otherwise an item that is
    not in the list may be better too.
    """
    shape, leaves, top_leaves = tree.shape, tree.leaves(items), tree.leaves(top.items)
    exists = top.items >= 0  # [U, M]
    own = exists & (top.items == items[:, None])
    known = own.any(1)
    worst = top.scores.masked_fill(~exists, torch.inf).amin(1)  # an item outside the list scores at most that
    score = torch.where(known, top.scores.masked_fill(~own, -torch.inf).amax(1), worst)
    better = (top_leaves >= 0) & (top.scores > score[:, None])
    first = torch.ones_like(items)
    for level in range(1, shape.height):
        above = shape.ancestor(leaves.clamp(min=0), level)
        shared = shape.ancestor(top_leaves.clamp(min=0), level) == above[:, None]
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
    in_tree = (leaves >= 0)[:, None].float()
    if mode == "none":
        return in_tree.expand(-1, len(levels))
    leaf_scores = by_leaf(scores, tree)
    peaks = path_peaks(leaf_scores, leaves.clamp(min=0), tree.shape)  # [U, H]
    if mode == "one_step":
        positive = F.pad(peaks[:, 1:] >= peaks[:, :-1], (0, 1), value=True)
    else:
        positive = peaks <= peaks[:, -1:]
    weights = torch.stack([positive[:, i] for i in chosen], 1) * in_tree
    return weights / total_peaks(leaf_scores, tree.shape, levels) if mode == "normalised" else weights


def mean_label_per_level(labels: Labels, levels: tuple[int, ...], chunk: int = 2**20) -> Tensor:
    """The mean label of each level over all instances: float64 [L]. Strict labels leave few positives at the top."""
    rows = torch.arange(len(labels.values), device=labels.values.device)
    sums = [labels.weights(some, levels).double().sum(0) for some in torch.split(rows, chunk)]
    return torch.stack(sums).sum(0) / len(rows)


def by_leaf(scores: Tensor, tree: Tree) -> Tensor:
    """Scores of items [U, n_items] in the order of leaves [U, slots], -inf at free slots."""
    leaf_scores = scores.index_select(1, tree.item_of_leaf.clamp(min=0).long())
    return leaf_scores.masked_fill_(tree.item_of_leaf < 0, -torch.inf)


def path_peaks(leaf_scores: Tensor, leaves: Tensor, shape: TreeShape) -> Tensor:
    """The largest score below each node on the paths to leaves [U]: [U, slots] -> [U, H], level 1 first."""
    found, peaks = [], leaf_scores
    for level in range(shape.height, 0, -1):
        found.append(peaks.gather(1, shape.ancestor(leaves, level)[:, None])[:, 0])
        peaks = _parent_max(peaks, shape.branch)
    return torch.stack(found[::-1], 1)


def total_peaks(leaf_scores: Tensor, shape: TreeShape, levels: tuple[int, ...]) -> Tensor:
    """The sum over each level of the largest probability below each node: [U, slots] scores -> float32 [U, L]."""
    found, peaks = {}, leaf_scores.float().softmax(1)
    for level in range(shape.height, 0, -1):
        found[level] = peaks.sum(1)
        peaks = _parent_max(peaks, shape.branch)
    return torch.stack([found[level] for level in levels], 1)


def _stored(
    tree: Tree, pairs: HistoryTargets, rows: Tensor, estimate: Estimator, mode: str
) -> tuple[Tensor, Tensor | None]:
    """Labels of some instances in compact form, and where they are certain; None = everywhere."""
    items = pairs.targets(rows)
    if mode == "none":
        return (tree.leaves(items) >= 0).to(torch.uint8), None
    scores = estimate(pairs.histories(rows))
    if isinstance(scores, Top):
        _check_strict(mode)
        return first_level_by_top(scores, items, tree)
    if mode == "strict":
        return first_true_level(scores, items, tree), None
    labels = label_weights(scores, items, tree, tuple(range(1, tree.shape.height + 1)), mode)
    return labels.to(torch.uint8) if mode == "one_step" else labels, None


def _parent_max(peaks: Tensor, branch: int) -> Tensor:
    """The maximum of each group of siblings: [U, N] -> [U, parents]."""
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
        raise ConfigError(f"rectified labels from the best items alone need the mode strict, got {mode!r}")
