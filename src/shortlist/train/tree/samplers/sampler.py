"""Samplers of negative nodes per level, with the correction of their logits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree

LevelScore = Callable[[int, Tensor], Tensor]
"""(level, nodes [U, C]) -> scores [U, C], without gradient and in eval mode."""

LARGE = 2**62  # integers below it, modulo the size of a level, are uniform to one part in 2**38


class SampledNodes(NamedTuple):
    """For U users and L levels: the positive node in column 0, the negatives in the others."""

    nodes: Tensor  # int64 [U, L, C], indices in the level; an invalid column holds some node of the level
    logw: Tensor  # float32 [U, L, C], subtracted from logits; 0 for the positive
    valid: Tensor  # bool [U, L, C]; column 0 is always True
    skip: Tensor  # bool [U, L]: there is no negative, so the softmax loss is exactly 0
    reached: Tensor | None = None  # bool [U, L]: beam search reached the positive; None without beam search


class Sampler(Protocol):
    """Samples negatives at the given ascending levels for the leaves [U] of the targets; some need scores."""

    def sample(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> SampledNodes: ...


@dataclass(frozen=True)
class AllSampler:
    """Every other node of the level: the exact softmax."""

    def sample(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> SampledNodes:
        return all_others(shape, levels, leaves)


@dataclass(frozen=True)
class UniformSampler:
    """Uniform negatives with replacement, never the positive; all other nodes where there are no more than that.

    Each of M samples represents (N - 1) / M nodes, so logw = log M - log(N - 1).
    """

    negatives: int | tuple[int, ...] = 70

    def sample(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> SampledNodes:
        layout = _layout(shape, levels, _counts(self.negatives, len(levels)), 0, leaves.device)
        size = (len(leaves), *layout.position.shape)
        random = torch.randint(LARGE, size, generator=generator, device=leaves.device) % layout.others
        return _around_positive(layout, leaves, torch.where(layout.complete, layout.position, random))


@dataclass(frozen=True)
class SiblingSampler:
    """The other children of the positive's parent, as in probabilistic label trees."""

    def sample(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> SampledNodes:
        layout = _layout(shape, levels, (shape.branch - 1,) * len(levels), 0, leaves.device)
        positive = path(shape, levels, leaves)[..., None]  # [U, L, 1]
        position = torch.arange(shape.branch - 1, device=leaves.device)  # [B - 1]
        others = positive - positive % shape.branch + position + (position >= positive % shape.branch)
        exists = others < layout.sizes  # [U, L, B - 1]
        nodes = torch.cat([positive, torch.minimum(others, layout.sizes - 1)], 2)
        valid = torch.cat([torch.ones_like(positive, dtype=torch.bool), exists], 2)
        return SampledNodes(nodes, torch.zeros_like(nodes, dtype=torch.float32), valid, ~exists.any(2))


def path(shape: TreeShape, levels: tuple[int, ...], leaves: Tensor) -> Tensor:
    """The ancestors of leaves [U] at the levels: int64 [U, L]."""
    return leaves.long()[:, None] // _widths(shape, levels, leaves.device)


def all_others(shape: TreeShape, levels: tuple[int, ...], leaves: Tensor, columns: int = 0) -> SampledNodes:
    """All other nodes of each level, in order, in at least `columns` columns."""
    layout = _layout(shape, levels, (shape.n,) * len(levels), columns - 1, leaves.device)
    return _around_positive(layout, leaves, layout.position)


def only_live(sampled: SampledNodes, levels: tuple[int, ...], tree: Tree) -> SampledNodes:
    """The sample without nodes that have no item below, when the tree has free slots.

    Weights do not change: a node without items adds exp(-inf) = 0 to the partition function, and so does leaving it
    out. The estimate stays unbiased.
    """
    if tree.n_live == tree.shape.n:
        return sampled
    live = torch.stack([tree.live(level)[sampled.nodes[:, at]] for at, level in enumerate(levels)], 1)
    valid = torch.cat([sampled.valid[..., :1], sampled.valid[..., 1:] & live[..., 1:]], 2)
    return SampledNodes(sampled.nodes, sampled.logw * valid, valid, ~valid[..., 1:].any(2), sampled.reached)


def depth_aware(per_level: int, levels: Sequence[int], alpha: float) -> tuple[int, ...]:
    """Negatives per level that grow as 1 + alpha * level and add up to per_level * len(levels) (paper, appendix I).

    The remainder of rounding down goes to the largest fractions, the deeper level first.
    """
    if per_level < 1 or alpha < 0 or not levels:
        raise ConfigError(
            f"expected per_level >= 1, alpha >= 0 and levels, got {per_level}, {alpha}, {levels}"
        )
    budget = per_level * len(levels)
    weights = [1 + alpha * level for level in levels]
    shares = [budget * weight / sum(weights) for weight in weights]
    sizes = [max(int(share), 1) for share in shares]
    order = sorted(range(len(levels)), key=lambda i: (shares[i] - int(shares[i]), i), reverse=True)
    for i in order[: max(budget - sum(sizes), 0)]:
        sizes[i] += 1
    while sum(sizes) > budget:  # levels raised to one negative take it from the level with most
        sizes[sizes.index(max(sizes))] -= 1
    return tuple(sizes)


class _Layout(NamedTuple):
    """What is the same for all batches: C columns for levels of given sizes and numbers of negatives."""

    widths: Tensor  # int64 [L]: leaves under a full node
    sizes: Tensor  # int64 [L, 1]
    others: Tensor  # int64 [L, 1]: nodes besides the positive, at least 1
    complete: Tensor  # bool [L, 1]: all others are taken
    position: Tensor  # int64 [L, C - 1]: 0, 1, 2, ...
    logw: Tensor  # float32 [L, C]
    valid: Tensor  # bool [L, C]
    skip: Tensor  # bool [L]


@lru_cache(maxsize=256)
def _layout(
    shape: TreeShape, levels: tuple[int, ...], counts: tuple[int, ...], least: int, device: torch.device
) -> _Layout:
    check_levels(shape, levels)
    sizes = [shape.sizes[level] for level in levels]
    taken = [min(count, size - 1) for count, size in zip(counts, sizes, strict=True)]
    columns = max(*taken, least, 0)
    corrections = [
        math.log(m) - math.log(n - 1) if 0 < m < n - 1 else 0.0 for m, n in zip(taken, sizes, strict=True)
    ]
    size = torch.tensor(sizes)[:, None]  # [L, 1]
    used = torch.arange(columns) < torch.tensor(taken)[:, None]  # [L, C - 1]
    logw = torch.where(used, torch.tensor(corrections)[:, None], 0.0)
    first = torch.ones(len(levels), 1)
    parts = _Layout(
        _widths(shape, levels, torch.device("cpu")),
        size,
        (size - 1).clamp(min=1),
        torch.tensor(taken)[:, None] == size - 1,
        torch.arange(columns).repeat(len(levels), 1),
        torch.cat([0.0 * first, logw], 1),
        torch.cat([first.bool(), used], 1),
        size[:, 0] == 1,
    )
    return _Layout(*(part.to(device) for part in parts))


def _around_positive(layout: _Layout, leaves: Tensor, position: Tensor) -> SampledNodes:
    """The positive, then the nodes at positions [U or none, L, C - 1] that are counted without the positive."""
    positive = (leaves.long()[:, None] // layout.widths)[..., None]  # [U, L, 1]
    others = torch.minimum(position + (position >= positive), layout.sizes - 1)  # [U, L, C - 1]
    nodes = torch.cat([positive, others], 2)
    skip = layout.skip.expand(nodes.shape[:2])
    return SampledNodes(nodes, layout.logw.expand(nodes.shape), layout.valid.expand(nodes.shape), skip)


@lru_cache(maxsize=256)
def _widths(shape: TreeShape, levels: tuple[int, ...], device: torch.device) -> Tensor:
    check_levels(shape, levels)
    return torch.tensor([shape.width(level) for level in levels], device=device)


def check_levels(shape: TreeShape, levels: tuple[int, ...]) -> None:
    """Refuse levels outside the tree, or not ascending."""
    ascending = all(a < b for a, b in pairwise(levels))
    if not levels or not ascending or levels[0] < 1 or levels[-1] > shape.height:
        raise ConfigError(f"levels must be ascending, from 1 to {shape.height}; got {levels}")


def _counts(negatives: int | tuple[int, ...], n_levels: int) -> tuple[int, ...]:
    counts = (negatives,) * n_levels if isinstance(negatives, int) else negatives
    if len(counts) != n_levels or min(counts) < 1:
        raise ConfigError(
            f"negatives must be a number of at least 1, or one for each of {n_levels} levels, got {negatives!r}"
        )
    return counts
