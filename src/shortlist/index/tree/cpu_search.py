"""Search on one CPU core, a user at a time: from a history to leaves in one call, without torch.

Only nodes with an allowed item below are scored. Compiled code is kept beside this file and does not see changes in
the kernel it calls: touch this file after one there.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.index.tree.index import TreeIndex
from shortlist.index.tree.tree import flat, grow
from shortlist.models.nodes import AttentionScorer, ScorerConfig, make_scorer
from shortlist.models.nodes.cpu_kernel import Core, compiled, fill_user, score_user, turn
from shortlist.models.nodes.scorer import last

Wholes = NDArray[np.int64]
NOTHING = float("-inf")
NO_KEY = -(2**63)  # below the key of every number
MINUS_ZERO = -(2**31)  # the bits of it


class Ground(NamedTuple):
    """A tree as the lane reads it."""

    sizes: Wholes  # nodes of every level
    offsets: Wholes  # rows of their first
    branch: int
    reach: NDArray[np.bool_]  # [n_nodes], nodes with an allowed item below
    leaf_rows: Wholes  # [slots], none where the rows of leaves follow those of nodes


def found_on_core(
    index: TreeIndex,
    core: Core,
    history: Tensor,
    k: int,
    beam: int,
    first: int,
    exclude: Tensor | None = None,
    allowed: Tensor | None = None,
    path: bool = False,
) -> tuple[Tensor, Tensor]:
    """Items and scores [U, k] as `search` gives them when it begins at level `first`."""
    tree, own = index.tree, index.scorer.config.history == "item"
    past = index.history_rows(0, history) if own else tree.leaves(history)
    past = last(past, index.scorer.config.max_history).long().contiguous()
    none = past.new_empty((len(past), 0)) if exclude is None else tree.leaves(exclude).contiguous()
    leaves, scores = past.new_full((len(past), k), -1), torch.full((len(past), k), NOTHING)
    ground, arrays = _ground(index, allowed), (past.numpy(), none.numpy(), leaves.numpy(), scores.numpy())
    for mine in zip(*arrays, strict=True):
        walk(ground, core, own, first, beam, path, *mine)
    scores, at = scores.sort(dim=1, descending=True, stable=True)  # equal ones: the lower leaf
    leaves = leaves.gather(1, at)
    return tree.item_of_leaf[leaves.clamp(min=0)].long().masked_fill_(leaves < 0, -1), scores


@torch.no_grad()
def warm(layers: int = 3) -> None:
    """Compile the lane for scorers of so many hidden layers now, not at the first query."""
    config = ScorerConfig(1, width=1, hidden=1, layers=(1,) * layers, windows=(1,))
    scorer, item = make_scorer(config, seed=0).eval(), torch.zeros(1, dtype=torch.int64)
    core = scorer.core() if isinstance(scorer, AttentionScorer) else None
    assert core is not None
    found_on_core(TreeIndex(grow(item, 1), scorer), core, item[None], k=1, beam=1, first=0)


def _ground(index: TreeIndex, allowed: Tensor | None) -> Ground:
    shape = index.tree.shape
    reach = index.tree.all_reach if allowed is None else flat(index.tree.allow(allowed))
    rows = index.leaf_rows if index.leaf_vectors == "item" else torch.empty(0, dtype=torch.int64)
    return Ground(np.array(shape.sizes), np.array(shape.offsets), shape.branch, reach.numpy(), rows.numpy())


@compiled
def walk(
    ground: Any,
    core: Any,
    own: bool,
    first: int,
    beam: int,
    path: bool,
    past: Any,
    exclude: Any,
    leaves: Any,
    scores: Any,
) -> None:
    """Write the k best leaves of one user in rising order, and their scores, where level `first` leads to.

    `past` [K] holds the leaves of the history, or rows of its `own` table, `exclude` [E] leaves; -1 = none.
    """
    height = len(ground.sizes) - 1
    turned = turn(core.unit.weight1), turn(core.layers[0].weight)
    a, there, pa, given = _state(core, len(past))
    nodes = np.flatnonzero(_alive(ground, first))
    above = np.zeros(len(nodes), np.float32)
    for level in range(first, height + 1):
        if level == height:
            nodes, above = _without(nodes, above, exclude)
        if level == first or not own:
            seen = past if own else _past_rows(ground, level, past)
            fill_user(seen, core.past, *turned, core.spans, core.mean, a, there, pa, given)
        values = np.empty(len(nodes), np.float32)
        rows = _rows(ground, level, nodes)
        score_user(a, there, pa, given, core.nodes, rows, core.unit, core.layers, values)
        if path:
            _add_log_sigmoids(above, values)
        kept = _best(values, beam if level < height else len(leaves))
        nodes, values = nodes[kept], values[kept]
        if level < height:
            nodes, above = _children(nodes, values, ground.branch, _alive(ground, level + 1))
    leaves[: len(nodes)] = nodes
    scores[: len(nodes)] = values


@compiled
def _state(core: Any, max_history: int) -> Any:
    """Room for an AttentionState of one user."""
    return (
        np.empty((max_history, core.past.shape[1]), np.float32),
        np.empty(max_history, np.bool_),
        np.empty((max_history, len(core.unit.bias1)), np.float32),
        np.empty((max_history, len(core.layers[0].bias)), np.float32),
    )


@compiled
def _alive(ground: Any, level: int) -> Any:
    begin = ground.offsets[level]
    return ground.reach[begin : begin + ground.sizes[level]]


@compiled
def _past_rows(ground: Any, level: int, leaves: Any) -> Any:
    """The rows of the nodes of a level above leaves [K], -1 where there is none."""
    width = ground.branch ** (len(ground.sizes) - 1 - level)
    rows = _rows(ground, level, np.maximum(leaves, 0) // width)
    rows[leaves < 0] = -1
    return rows


@compiled
def _rows(ground: Any, level: int, nodes: Any) -> Any:
    if level == len(ground.sizes) - 1 and len(ground.leaf_rows):
        return ground.leaf_rows[nodes]
    return nodes + ground.offsets[level]


@compiled
def _without(nodes: Any, above: Any, exclude: Any) -> Any:
    """Leaves in rising order without those to exclude."""
    kept = np.ones(len(nodes), np.bool_)
    for leaf in exclude:
        at = np.searchsorted(nodes, leaf)
        if at < len(nodes) and nodes[at] == leaf:
            kept[at] = False
    return nodes[kept], above[kept]


@compiled
def _add_log_sigmoids(above: Any, values: Any) -> None:
    for i in range(len(values)):
        x = values[i]
        values[i] = above[i] + min(x, np.float32(0)) - np.log1p(np.exp(-abs(x)))


@compiled
def _best(values: Any, count: int) -> Any:
    """Where the `count` largest stand, in rising order; of equal ones the first, of -inf none."""
    keys, n = np.empty(len(values), np.int64), len(values)
    bits = values.view(np.int32)
    for i in range(n):
        rising = np.int64(0 if bits[i] == MINUS_ZERO else bits[i])
        rising = rising if rising >= 0 else rising ^ 0x7FFFFFFF  # in the order of the values
        keys[i] = NO_KEY if values[i] == NOTHING else (rising << 32) + n - 1 - i
    bar = _ranked(keys.copy(), n - count) if count < n else NO_KEY
    return np.flatnonzero((keys >= bar) & (keys > NO_KEY))


@compiled
def _ranked(keys: Any, rank: int) -> int:
    """The key that `rank` others are below; stirs the keys (Hoare's quickselect)."""
    low, high = 0, len(keys) - 1
    while low < high:
        pivot, left, right = keys[(low + high) // 2], low, high
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while keys[right] > pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                left, right = left + 1, right - 1
        if right < rank < left:
            break
        low, high = (low, right) if rank <= right else (left, high)
    return int(keys[rank])


@compiled
def _children(nodes: Any, values: Any, branch: int, alive: Any) -> Any:
    """The living nodes below in rising order, with the values of those above them."""
    below, above = np.empty(len(nodes) * branch, np.int64), np.empty(len(nodes) * branch, np.float32)
    count = 0
    for i in range(len(nodes)):
        for child in range(nodes[i] * branch, min((nodes[i] + 1) * branch, len(alive))):
            if alive[child]:
                below[count], above[count] = child, values[i]
                count += 1
    return below[:count], above[:count]
