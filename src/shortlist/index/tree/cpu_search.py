"""Beam search on one CPU core, one user at a time: from a history to leaves in one compiled call, without torch.

Only nodes with an allowed item below are scored. Numba caches the compiled code by the text of this file and does not
notice changes in the kernel it calls: edit this file too after a change there.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.index.tree.index import TreeIndex
from shortlist.index.tree.tree import concatenated, grow
from shortlist.models.nodes import AttentionScorer, ScorerConfig, make_scorer
from shortlist.models.nodes.cpu_kernel import KernelInputs, compiled, fill_user, padded_transpose, score_user
from shortlist.models.nodes.scorer import last

Integers = NDArray[np.int64]
NOTHING = float("-inf")
NO_KEY = -(2**63)  # below the key of every number
MINUS_ZERO = -(2**31)  # bit pattern


class TreeArrays(NamedTuple):
    """The arrays of a tree that the kernel reads."""

    sizes: Integers  # nodes per level
    offsets: Integers  # row of the first node per level
    branch: int
    reach: NDArray[np.bool_]  # [n_nodes], nodes with an allowed item below
    leaf_rows: Integers  # [slots], empty where the rows of leaves follow those of the other nodes


def search_on_cpu(
    index: TreeIndex,
    inputs: KernelInputs,
    history: Tensor,
    k: int,
    beam: int,
    first: int,
    exclude: Tensor | None = None,
    allowed: Tensor | None = None,
    path: bool = False,
) -> tuple[Tensor, Tensor]:
    """Items and scores [U, k] as `search` returns them when it starts at level `first`."""
    tree, own = index.tree, index.scorer.config.history == "item"
    past = index.history_rows(0, history) if own else tree.leaves(history)
    past = last(past, index.scorer.config.max_history).long().contiguous()
    excluded = past.new_empty((len(past), 0)) if exclude is None else tree.leaves(exclude).contiguous()
    leaves, scores = past.new_full((len(past), k), -1), torch.full((len(past), k), NOTHING)
    arrays = _tree_arrays(index, allowed)
    for user in zip(past.numpy(), excluded.numpy(), leaves.numpy(), scores.numpy(), strict=True):
        beam_search(arrays, inputs, own, first, beam, path, *user)
    scores, at = scores.sort(dim=1, descending=True, stable=True)  # ties: the lower leaf
    leaves = leaves.gather(1, at)
    return tree.item_of_leaf[leaves.clamp(min=0)].long().masked_fill_(leaves < 0, -1), scores


@torch.no_grad()
def warmup(layers: int = 3) -> None:
    """Compile the search for scorers of this many hidden layers now, not at the first query."""
    config = ScorerConfig(1, width=1, hidden=1, layers=(1,) * layers, windows=(1,))
    scorer, item = make_scorer(config, seed=0).eval(), torch.zeros(1, dtype=torch.int64)
    inputs = scorer.kernel_inputs() if isinstance(scorer, AttentionScorer) else None
    assert inputs is not None
    search_on_cpu(TreeIndex(grow(item, 1), scorer), inputs, item[None], k=1, beam=1, first=0)


def _tree_arrays(index: TreeIndex, allowed: Tensor | None) -> TreeArrays:
    shape = index.tree.shape
    reach = index.tree.all_reach if allowed is None else concatenated(index.tree.allow(allowed))
    rows = index.leaf_rows if index.leaf_vectors == "item" else torch.empty(0, dtype=torch.int64)
    return TreeArrays(
        np.array(shape.sizes), np.array(shape.offsets), shape.branch, reach.numpy(), rows.numpy()
    )


@compiled
def beam_search(
    tree: Any,
    inputs: Any,
    own: bool,
    first: int,
    beam: int,
    path: bool,
    past: Any,
    exclude: Any,
    leaves: Any,
    scores: Any,
) -> None:
    """Write the k best leaves of one user in ascending order, with their scores; starts at level `first`.

    `past` [K] holds the leaves of the history, or rows of its `own` table, `exclude` [E] leaves; -1 = none.
    """
    height = len(tree.sizes) - 1
    weights = padded_transpose(inputs.unit.weight1), padded_transpose(inputs.layers[0].weight)
    a, there, pa, first_layer = _state(inputs, len(past))
    nodes = np.flatnonzero(_reachable(tree, first))
    above = np.zeros(len(nodes), np.float32)
    for level in range(first, height + 1):
        if level == height:
            nodes, above = _exclude(nodes, above, exclude)
        if level == first or not own:
            seen = past if own else _past_rows(tree, level, past)
            fill_user(seen, inputs.past, *weights, inputs.spans, inputs.mean, a, there, pa, first_layer)
        values = np.empty(len(nodes), np.float32)
        rows = _rows(tree, level, nodes)
        score_user(a, there, pa, first_layer, inputs.nodes, rows, inputs.unit, inputs.layers, values)
        if path:
            _add_log_sigmoids(above, values)
        kept = _best(values, beam if level < height else len(leaves))
        nodes, values = nodes[kept], values[kept]
        if level < height:
            nodes, above = _children(nodes, values, tree.branch, _reachable(tree, level + 1))
    leaves[: len(nodes)] = nodes
    scores[: len(nodes)] = values


@compiled
def _state(inputs: Any, max_history: int) -> Any:
    """Uninitialised AttentionState of one user."""
    return (
        np.empty((max_history, inputs.past.shape[1]), np.float32),
        np.empty(max_history, np.bool_),
        np.empty((max_history, len(inputs.unit.bias1)), np.float32),
        np.empty((max_history, len(inputs.layers[0].bias)), np.float32),
    )


@compiled
def _reachable(tree: Any, level: int) -> Any:
    begin = tree.offsets[level]
    return tree.reach[begin : begin + tree.sizes[level]]


@compiled
def _past_rows(tree: Any, level: int, leaves: Any) -> Any:
    """Rows of the ancestors in a level of leaves [K], -1 = none."""
    width = tree.branch ** (len(tree.sizes) - 1 - level)
    rows = _rows(tree, level, np.maximum(leaves, 0) // width)
    rows[leaves < 0] = -1
    return rows


@compiled
def _rows(tree: Any, level: int, nodes: Any) -> Any:
    if level == len(tree.sizes) - 1 and len(tree.leaf_rows):
        return tree.leaf_rows[nodes]
    return nodes + tree.offsets[level]


@compiled
def _exclude(nodes: Any, above: Any, exclude: Any) -> Any:
    """Ascending leaves without the excluded ones."""
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
    """Positions of the `count` largest values, ascending; ties go to the first position, -inf is left out."""
    keys, n = np.empty(len(values), np.int64), len(values)
    bits = values.view(np.int32)
    for i in range(n):
        rising = np.int64(0 if bits[i] == MINUS_ZERO else bits[i])
        rising = rising if rising >= 0 else rising ^ 0x7FFFFFFF  # integers in the order of the values
        keys[i] = NO_KEY if values[i] == NOTHING else (rising << 32) + n - 1 - i
    threshold = _kth_smallest(keys.copy(), n - count) if count < n else NO_KEY
    return np.flatnonzero((keys >= threshold) & (keys > NO_KEY))


@compiled
def _kth_smallest(keys: Any, rank: int) -> int:
    """The key with `rank` smaller keys; reorders the keys (Hoare's quickselect)."""
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
def _children(nodes: Any, values: Any, branch: int, reachable: Any) -> Any:
    """The reachable children in ascending order, with the values of their parents."""
    below, above = np.empty(len(nodes) * branch, np.int64), np.empty(len(nodes) * branch, np.float32)
    count = 0
    for i in range(len(nodes)):
        for child in range(nodes[i] * branch, min((nodes[i] + 1) * branch, len(reachable))):
            if reachable[child]:
                below[count], above[count] = child, values[i]
                count += 1
    return below[:count], above[:count]
