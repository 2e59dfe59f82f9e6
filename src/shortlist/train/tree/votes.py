"""What training instances say about where their item should stand: sums of log-likelihoods, item by node."""

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

Whole = NDArray[np.int64]
Histories = Callable[[Tensor], Tensor]  # rows of instances [m] -> what was met before [m, K], -1 = padding


@dataclass(frozen=True)
class Step:
    """From the nodes of `level` to their descendants at `below`; every node has `width` candidates, some missing."""

    level: int
    below: int
    width: int
    first: int = 0  # levels above it were not taught and have nothing to say


def steps_of(shape: TreeShape, stride: int, bottom: int, first: int = 0) -> Iterator[Step]:
    """From the root to the level `bottom`, `stride` levels at a time, fewer where nodes have many children.

    The first step goes as far as `first` whatever it costs: levels above it have nothing to say. Where nothing down
    to `bottom` was taught there is no step.
    """
    while stride > 1 and shape.branch**stride > CANDIDATES:
        stride -= 1
    level = 0
    while first <= bottom and level < bottom:
        below = min(max(level + stride, first), bottom)
        yield Step(level, below, min(shape.branch ** (below - level), shape.sizes[below]), first)
        level = below


# (index, histories [m, K], step, the node of `step.level` each instance is below [m]) -> log-likelihoods [m, width]
Measure = Callable[[TreeIndex, Tensor, Step, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Voters:
    """The instances that vote, those of one item together; items are named by their place in the order of leaves."""

    histories: Histories
    rows: Tensor  # int64 [m] which instances
    places: Whole  # [m] the place of the item each votes for, ascending
    weights: Tensor  # float32 [m] for how many instances each stands
    counts: Whole  # [n] instances of every item, also those that do not vote

    def take(self, at: Whole) -> "Voters":
        """Some of them, in this order."""
        here = torch.from_numpy(at).to(self.rows.device)
        return Voters(self.histories, self.rows[here], self.places[at], self.weights[here], self.counts)


def voters_of(tree: Tree, histories: Tensor | Histories, labels: Tensor, cap: int, seed: int) -> Voters:
    """At most `cap` instances of every item, drawn by the seed alike on every device.

    Labels without a leaf say nothing. An item with more instances than vote keeps its weight: each vote stands for
    counts / cap instances.
    """
    if isinstance(histories, Tensor):
        if len(histories) != len(labels):
            raise DataError(
                f"tree update: expected a label per history, got {len(labels)} for {len(histories)}"
            )
        histories = histories.__getitem__
    taken = tree.item_of_leaf >= 0
    place_of_leaf = taken.cumsum(0) - 1
    leaves = tree.leaves(labels)
    place = torch.where(leaves >= 0, place_of_leaf[leaves.clamp(min=0)], -1)  # [m]
    mixed = torch.randperm(len(place), generator=torch.Generator().manual_seed(seed)).to(place.device)
    ordered, at = place[mixed].sort(stable=True)
    nth = torch.arange(len(ordered), device=place.device) - torch.searchsorted(ordered, ordered)
    chosen = ((ordered >= 0) & (nth < cap)).nonzero()[:, 0]
    counts = torch.bincount(place[place >= 0], minlength=int(taken.sum()))
    places = ordered[chosen]
    weights = counts[places] / counts[places].clamp(max=cap)
    return Voters(histories, mixed[at[chosen]], places.cpu().numpy(), weights.float(), counts.cpu().numpy())


def sum_votes(
    index: TreeIndex, voters: Voters, step: Step, measure: Measure, node: Whole, chunk: int
) -> NDArray[np.float32]:
    """Sums of log-likelihoods [n, width] for items in ascending places 0..n-1, whose nodes of `step.level` are `node`.

    Added up in a fixed order, so that a GPU gives the same bytes every time.
    """
    table = torch.zeros((len(node), step.width), device=voters.rows.device)
    for part, votes in _votes(index, voters, step, measure, node, chunk):
        first, last = part[0], part[-1]
        lengths = torch.from_numpy(np.bincount(part - first, minlength=last - first + 1)).to(table.device)
        table[first : last + 1] += torch.segment_reduce(votes, "sum", lengths=lengths, axis=0, unsafe=True)
    return table.cpu().numpy()


def total_votes(
    index: TreeIndex, voters: Voters, step: Step, measure: Measure, node: Whole, child: Whole, chunk: int
) -> float:
    """The log-likelihood of items below `node` standing at its candidates `child` 0..width-1, over all votes."""
    total = torch.zeros((), dtype=torch.float64, device=voters.rows.device)
    for part, votes in _votes(index, voters, step, measure, node, chunk):
        at = torch.from_numpy(child[part]).to(votes.device)
        total += votes.gather(1, at[:, None]).sum(dtype=torch.float64)
    return total.item()


def lead_of_votes(
    index: TreeIndex, voters: Voters, step: Step, measure: Measure, node: Whole, child: Whole, chunk: int
) -> NDArray[np.float64]:
    """How much more items below `node` have at its candidate `child` than at the mean of its candidates [n]."""
    lead = np.zeros(len(node))
    for part, votes in _votes(index, voters, step, measure, node, chunk):
        at, there = torch.from_numpy(child[part]).to(votes.device), votes > -torch.inf
        mean = votes.masked_fill(~there, 0.0).sum(1) / there.sum(1)
        over = votes.gather(1, at[:, None])[:, 0] - mean
        lead += np.bincount(part, over.double().cpu().numpy(), len(node))
    return lead


def _votes(
    index: TreeIndex, voters: Voters, step: Step, measure: Measure, node: Whole, chunk: int
) -> Iterator[tuple[Whole, Tensor]]:
    """Places of voters, and their weighted log-likelihoods [m, width], some at a time."""
    for start in range(0, len(voters.places), chunk):
        part = voters.places[start : start + chunk]
        histories = voters.histories(voters.rows[start : start + chunk])
        votes = measure(index, histories, step, torch.from_numpy(node[part]).to(histories.device))
        yield part, votes * voters.weights[start : start + chunk, None]


def softmax_votes(index: TreeIndex, histories: Tensor, step: Step, node: Tensor) -> Tensor:
    """log softmax over the candidates at the lower level (Eq. 30 of the DTR paper); -inf where there is none."""
    scores, there = _scores(index, histories, step, step.below, node)
    return scores.masked_fill(~there, -torch.inf).log_softmax(1)


def sigmoid_votes(index: TreeIndex, histories: Tensor, step: Step, node: Tensor) -> Tensor:
    """Sum of log sigmoids of taught levels on the way down to each candidate (JTM); -inf where there is none."""
    total = torch.zeros((len(node), step.width), device=node.device)
    candidates = torch.arange(step.width, device=node.device)
    for level in range(max(step.level + 1, step.first), step.below + 1):
        scores, there = _scores(index, histories, step, level, node)
        above = candidates // index.tree.shape.branch ** (step.below - level)
        total = total + F.logsigmoid(scores).masked_fill(~there, -torch.inf)[:, above]
    return total


def _scores(
    index: TreeIndex, histories: Tensor, step: Step, level: int, node: Tensor
) -> tuple[Tensor, Tensor]:
    """Scores [m, c] of the descendants of `node` at a level, and which of them have an item below."""
    shape = index.tree.shape
    width = min(shape.branch ** (level - step.level), shape.sizes[level])
    nodes = node[:, None] * width + torch.arange(width, device=node.device)  # [m, c]
    there = index.tree.reach[level][nodes.clamp(max=shape.sizes[level])]
    state = index.state(histories, level)
    if step.level == 0:  # one root: all instances share the candidates
        return index.scorer.score_all(state, index.level_rows(level)), there
    return index.scorer.score(state, index.rows(level, nodes)), there
