"""Log-likelihoods of items at nodes, summed over training instances: the objective of tree updates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import DataError
from shortlist.index.tree import Tree, TreeIndex, TreeShape

CANDIDATES = 512  # a stride is shortened where a node would have more descendants to choose from

Ints = NDArray[np.int64]
Histories = Callable[[Tensor], Tensor]  # rows of instances [m] -> histories [m, K], -1 = padding


@dataclass(frozen=True)
class Stride:
    """From the nodes of `level` to their descendants at `below`; every node has `width` candidates, some missing."""

    level: int
    below: int
    width: int
    first: int = 0  # levels above it are not trained and have no meaningful scores


def strides_of(shape: TreeShape, stride: int, bottom: int, first: int = 0) -> Iterator[Stride]:
    """From the root to the level `bottom`, `stride` levels at a time, fewer where nodes have many children.

    The first stride reaches at least `first`, with however many candidates: levels above it are not trained. If no
    level down to `bottom` is trained there is no stride.
    """
    while stride > 1 and shape.branch**stride > CANDIDATES:
        stride -= 1
    level = 0
    while first <= bottom and level < bottom:
        below = min(max(level + stride, first), bottom)
        yield Stride(level, below, min(shape.branch ** (below - level), shape.sizes[below]), first)
        level = below


# (index, histories [m, K], stride, ancestor of each instance at `stride.level` [m]) -> log-likelihoods [m, width]
LogLikelihood = Callable[[TreeIndex, Tensor, Stride, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class UpdateInstances:
    """The instances an update uses, grouped by item; items are numbered in the order of their leaves."""

    histories: Histories
    rows: Tensor  # int64 [m] rows of the instances
    items: Ints  # [m] number of the target, ascending
    weights: Tensor  # float32 [m] how many instances each one represents
    counts: Ints  # [n] instances of every item, also those not used

    def take(self, at: Ints) -> "UpdateInstances":
        """Some of them, in this order."""
        here = torch.from_numpy(at).to(self.rows.device)
        return UpdateInstances(
            self.histories, self.rows[here], self.items[at], self.weights[here], self.counts
        )


def sample_instances(
    tree: Tree,
    histories: Tensor | Histories,
    targets: Tensor,
    per_item: int,
    seed: int,
    strengths: Tensor | None = None,
) -> UpdateInstances:
    """At most `per_item` random instances of every item, the same on every device.

    Targets without a leaf are dropped. An item with more instances keeps its weight: each of its sampled instances
    represents counts / per_item instances, times its own strength [m] where there are any.
    """
    if isinstance(histories, Tensor):
        if len(histories) != len(targets):
            raise DataError(
                f"tree update: expected a target per history, got {len(targets)} for {len(histories)}"
            )
        histories = histories.__getitem__
    occupied = tree.item_of_leaf >= 0
    number_of_leaf = occupied.cumsum(0) - 1
    leaves = tree.leaves(targets)
    number = torch.where(leaves >= 0, number_of_leaf[leaves.clamp(min=0)], -1)  # [m]
    shuffled = torch.randperm(len(number), generator=torch.Generator().manual_seed(seed)).to(number.device)
    ordered, at = number[shuffled].sort(stable=True)
    nth = torch.arange(len(ordered), device=number.device) - torch.searchsorted(ordered, ordered)
    chosen = ((ordered >= 0) & (nth < per_item)).nonzero()[:, 0]
    counts = torch.bincount(number[number >= 0], minlength=int(occupied.sum()))
    items = ordered[chosen]
    weights = counts[items] / counts[items].clamp(max=per_item)
    rows = shuffled[at[chosen]]
    weights = weights if strengths is None else weights * strengths[rows]
    return UpdateInstances(histories, rows, items.cpu().numpy(), weights.float(), counts.cpu().numpy())


def sum_by_item(
    index: TreeIndex,
    instances: UpdateInstances,
    stride: Stride,
    log_likelihood: LogLikelihood,
    node: Ints,
    chunk: int,
) -> NDArray[np.float32]:
    """Summed log-likelihoods [n, width] of items 0..n-1, whose nodes at `stride.level` are `node`.

    Added in a fixed order, so that a GPU gives the same bytes every time.
    """
    table = torch.zeros((len(node), stride.width), device=instances.rows.device)
    for items, values in _in_chunks(index, instances, stride, log_likelihood, node, chunk):
        first, last = items[0], items[-1]
        lengths = torch.from_numpy(np.bincount(items - first, minlength=last - first + 1)).to(table.device)
        table[first : last + 1] += torch.segment_reduce(values, "sum", lengths=lengths, axis=0, unsafe=True)
    return table.cpu().numpy()


def total(
    index: TreeIndex,
    instances: UpdateInstances,
    stride: Stride,
    log_likelihood: LogLikelihood,
    node: Ints,
    child: Ints,
    chunk: int,
) -> float:
    """The log-likelihood of items below `node` at its candidate `child` 0..width-1, over all instances."""
    summed = torch.zeros((), dtype=torch.float64, device=instances.rows.device)
    for items, values in _in_chunks(index, instances, stride, log_likelihood, node, chunk):
        at = torch.from_numpy(child[items]).to(values.device)
        summed += values.gather(1, at[:, None]).sum(dtype=torch.float64)
    return summed.item()


def gain_over_mean(
    index: TreeIndex,
    instances: UpdateInstances,
    stride: Stride,
    log_likelihood: LogLikelihood,
    node: Ints,
    child: Ints,
    chunk: int,
) -> NDArray[np.float64]:
    """Log-likelihood of items at candidate `child` of `node` minus the mean over all candidates [n]."""
    gain = np.zeros(len(node))
    for items, values in _in_chunks(index, instances, stride, log_likelihood, node, chunk):
        at, exists = torch.from_numpy(child[items]).to(values.device), values > -torch.inf
        mean = values.masked_fill(~exists, 0.0).sum(1) / exists.sum(1)
        over = values.gather(1, at[:, None])[:, 0] - mean
        gain += np.bincount(items, over.double().cpu().numpy(), len(node))
    return gain


def _in_chunks(
    index: TreeIndex,
    instances: UpdateInstances,
    stride: Stride,
    log_likelihood: LogLikelihood,
    node: Ints,
    chunk: int,
) -> Iterator[tuple[Ints, Tensor]]:
    """Items of instances with their weighted log-likelihoods [m, width], `chunk` instances at a time."""
    for start in range(0, len(instances.items), chunk):
        items = instances.items[start : start + chunk]
        histories = instances.histories(instances.rows[start : start + chunk])
        values = log_likelihood(index, histories, stride, torch.from_numpy(node[items]).to(histories.device))
        yield items, values * instances.weights[start : start + chunk, None]


def softmax_log_likelihood(index: TreeIndex, histories: Tensor, stride: Stride, node: Tensor) -> Tensor:
    """log softmax over the candidates at the lower level (DTR, eq. 30); -inf for missing candidates."""
    scores, exists = _scores(index, histories, stride, stride.below, node)
    return scores.masked_fill(~exists, -torch.inf).log_softmax(1)


def sigmoid_log_likelihood(index: TreeIndex, histories: Tensor, stride: Stride, node: Tensor) -> Tensor:
    """Sum of log sigmoids of trained levels on the path to each candidate (JTM); -inf for missing candidates."""
    summed = torch.zeros((len(node), stride.width), device=node.device)
    candidates = torch.arange(stride.width, device=node.device)
    for level in range(max(stride.level + 1, stride.first), stride.below + 1):
        scores, exists = _scores(index, histories, stride, level, node)
        above = candidates // index.tree.shape.branch ** (stride.below - level)
        summed = summed + F.logsigmoid(scores).masked_fill(~exists, -torch.inf)[:, above]
    return summed


def _scores(
    index: TreeIndex, histories: Tensor, stride: Stride, level: int, node: Tensor
) -> tuple[Tensor, Tensor]:
    """Scores [m, c] of the descendants of `node` at a level, and which of them have an item below."""
    shape = index.tree.shape
    width = min(shape.branch ** (level - stride.level), shape.sizes[level])
    nodes = node[:, None] * width + torch.arange(width, device=node.device)  # [m, c]
    exists = index.tree.reach[level][nodes.clamp(max=shape.sizes[level])]
    state = index.state(histories, level)
    if stride.level == 0:  # one root: all instances share the candidates
        return index.scorer.score_all(state, index.level_rows(level)), exists
    return index.scorer.score(state, index.rows(level, nodes)), exists
