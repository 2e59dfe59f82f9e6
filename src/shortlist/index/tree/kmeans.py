"""Balanced k-means down a tree: every node splits its items into children of exactly their capacity."""

from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.index.tree.assign import balanced_assign
from shortlist.index.tree.shape import TreeShape

BLOCK = 1 << 18  # items of a level split at once
SWEEPS = 50  # over all pairs of children, at most
SWEEPS_PER_ROUND = 2  # sweeps per round of k-means: centres move before the last small swaps are made
TOLERANCE = 1e-6  # smaller gains of cosines are rounding
GOLDEN = 0x9E3779B97F4A7C15


def cluster(vectors: Tensor, shape: TreeShape, seed: int, rounds: int = 10) -> Tensor:
    """Unit vectors [m, D] in an order that puts similar ones under one node, int64 [m], m at most the leaves.

    All full nodes of a level are split together. Costs about height x rounds x m x branch x D multiplications and,
    beside the vectors, one copy of them at the top levels and of a block below. Measured on one core with D = 64:
    10,000 vectors in less than a second, a million in 46 s (two branches) and 85 s (eight) with 1.3 GB in all.
    """
    order = torch.arange(len(vectors), device=vectors.device)
    for level in range(shape.height - 1):  # the last split only orders the leaves of a node
        width = shape.width(level)
        whole = len(order) // width
        for first in range(0, whole, step := max(1, BLOCK // width)):
            nodes = range(first, min(first + step, whole))
            _split_nodes(vectors, order, shape, level, nodes, width, seed, rounds)
        if rest := len(order) - whole * width:
            _split_nodes(vectors, order, shape, level, range(whole, whole + 1), rest, seed, rounds)
    return order


def _split_nodes(
    vectors: Tensor,
    order: Tensor,
    shape: TreeShape,
    level: int,
    nodes: range,
    size: int,
    seed: int,
    rounds: int,
) -> None:
    """Reorder the items of consecutive nodes, `size` each, by their children."""
    child, first = shape.width(level + 1), nodes.start * shape.width(level)
    if size <= child:
        return
    part = order[first : first + len(nodes) * size].view(len(nodes), size)  # [G, s]
    rows = np.arange(nodes.start, nodes.stop) + shape.offsets[level]
    draws = torch.from_numpy(uniforms(seed, rows, -(-size // child))).to(vectors.device)
    at = split(vectors[part], child, draws, rounds)
    part.copy_(part.gather(1, at))


def split(x: Tensor, child: int, draws: Tensor, rounds: int = 10) -> Tensor:
    """Groups of vectors [G, s, D] in an order [G, s] of clusters of `child` vectors, the last one smaller.

    k-means by cosine with exact cluster sizes: the sum of cosines with the centres never decreases. `draws` [G,
    children] in [0, 1) select the initial centres.
    """
    cosines = similarity(x, first_centres(x, draws))
    at = start(cosines, child)
    before = torch.full((len(x),), float("-inf"), device=x.device, dtype=torch.float64)
    for _ in range(rounds):
        better = improve(cosines, at, child, SWEEPS_PER_ROUND)
        value = objective(cosines, better, child)  # [G]
        rising = value - before > TOLERANCE * x.shape[1]
        if not bool(rising.any()):
            break
        # A group that no longer improves keeps its order, whatever the other groups of the batch do.
        at = torch.where(rising[:, None], better, at)
        before = torch.where(rising, value, torch.inf)
        cosines = similarity(x, means(x, at, child))
    return at


def similarity(x: Tensor, centres: Tensor) -> Tensor:
    """Cosines of vectors with centres [G, s, C], stored centre by centre, the order in which they are read."""
    return (centres @ x.mT).mT


def first_centres(x: Tensor, draws: Tensor) -> Tensor:
    """Initial centres [G, C, D] by k-means++, with probability proportional to 1 - cosine."""
    groups, size = torch.arange(len(x), device=x.device), x.shape[1]
    chosen = x[groups, (draws[:, 0] * size).long().clamp(max=size - 1)]  # [G, D]
    centres, distance = [chosen], torch.full(x.shape[:2], 2.0, device=x.device, dtype=torch.float64)
    for draw in draws.T[1:]:
        distance = torch.minimum(distance, 1 - (x @ chosen[:, :, None]).squeeze(-1)).clamp(min=0)  # [G, s]
        total = distance.cumsum(1)
        at = torch.searchsorted(total, draw[:, None] * total[:, -1:], right=True).clamp(max=size - 1)
        chosen = x[groups, at[:, 0]]
        centres.append(chosen)
    return torch.stack(centres, 1)


def start(cosines: Tensor, child: int) -> Tensor:
    """An initial order [G, s]: items with the largest regret get their first choice while capacity lasts."""
    groups, size, count = cosines.shape
    if count == 2:  # improving a single pair is optimal from any start
        return torch.arange(size, device=cosines.device).repeat(groups, 1)
    best, second = cosines.topk(2, dim=2).values.unbind(2)
    capacity = np.full((groups, count), child)
    capacity[:, -1] = size - (count - 1) * child
    chosen = balanced_assign(
        cosines.flatten(0, 1).cpu().numpy(),
        capacity,
        (best - second).flatten().cpu().numpy(),
        np.repeat(np.arange(groups), size),
    )
    label = torch.from_numpy(chosen).to(cosines.device).view(groups, size)
    return label.argsort(dim=1, stable=True)


def improve(cosines: Tensor, at: Tensor, child: int, sweeps: int = SWEEPS) -> Tensor:
    """The order after swaps between children, until no swap of two items gains or the sweeps are used up.

    Two children are improved at once: their items are sorted by the difference of their cosines. With two children this
    is the optimal assignment.
    """
    at, everywhere = at.clone(), at.new_ones((len(at), 1), dtype=torch.bool)
    if cosines.shape[2] == 2:
        _reassign_pair(cosines, at, child, (0, 1), everywhere)
        return at
    for _ in range(sweeps):
        gains = _gaining(cosines, at, child)  # [G, C, C]
        somewhere = gains.any(0).tolist()
        pairs = [pair for pair in combinations(range(len(somewhere)), 2) if somewhere[pair[0]][pair[1]]]
        for left, right in pairs:
            _reassign_pair(cosines, at, child, (left, right), gains[:, left, right, None])
        if not pairs:
            break
    return at


def _reassign_pair(cosines: Tensor, at: Tensor, child: int, pair: tuple[int, int], where: Tensor) -> None:
    """Divide the items of two children optimally between them, in the groups that `where` [G, 1] marks."""
    left, right = _places(at, child, pair[0]), _places(at, child, pair[1])
    both = torch.cat([left, right], dim=1)  # [G, up to 2 * child]
    preference = cosines[:, :, pair[0]].gather(1, both) - cosines[:, :, pair[1]].gather(1, both)
    divided = both.gather(1, preference.argsort(dim=1, descending=True, stable=True))
    both = torch.where(where, divided, both)
    room = left.shape[1]
    left.copy_(both[:, :room])
    right.copy_(both[:, room:])


def _gaining(cosines: Tensor, at: Tensor, child: int) -> Tensor:
    """The pairs of children between which a swap gains, bool [G, C, C]."""
    count = cosines.shape[2]
    moves = []
    for source in range(count):
        held = _places(at, child, source)[:, :, None].expand(-1, -1, count)
        own = cosines.gather(1, held)  # [G, child, C]
        moves.append((own - own[:, :, source : source + 1]).amax(1))
    best = torch.stack(moves, 1)  # the best move from one child to another
    return (best + best.mT) > TOLERANCE


def _places(at: Tensor, child: int, number: int) -> Tensor:
    """The part of an order that belongs to one child, [G, child], fewer for the last."""
    return at[:, number * child : (number + 1) * child]


def labels(at: Tensor, child: int) -> Tensor:
    """The child of every item [G, s]."""
    own = torch.arange(at.shape[1], device=at.device) // child
    return torch.empty_like(at).scatter_(1, at, own.expand_as(at))


def objective(cosines: Tensor, at: Tensor, child: int) -> Tensor:
    """The sum of cosines of items with the centres of their children, float64 [G]."""
    return cosines.gather(2, labels(at, child)[:, :, None]).double().sum((1, 2))


def means(x: Tensor, at: Tensor, child: int) -> Tensor:
    """The normalized centres of the children [G, C, D]."""
    label = labels(at, child)
    member = x.new_zeros(len(x), -(-x.shape[1] // child), x.shape[1])  # [G, C, s]
    return torch.nn.functional.normalize(member.scatter_(1, label[:, None], 1.0) @ x, dim=2)


def uniforms(seed: int, rows: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) [rows, count] that depend on seed, row and column alone (counter-based)."""
    key = _mixed(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64) + np.uint64(GOLDEN))
    key = _mixed(key + (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN))  # [rows]
    columns = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    bits: NDArray[np.uint64] = _mixed(key[:, None] + columns) >> np.uint64(11)
    return bits.astype(np.float64) / 2.0**53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
