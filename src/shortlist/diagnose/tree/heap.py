"""Whether a node of a tree speaks for the best item below it: order within levels, and what training makes of it.

A beam keeps the best nodes of a level. It loses nothing when the order of the nodes of every level is that of the best
leaf below each of them (the max-heap property): only the order counts, so levels may have scores of any scale.
"""

import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.train.tree import log_proposal, proposal_kl

NOTHING = float("-inf")
FINITE = -1e30  # stands for a node without items where -inf would make NaN of a difference
PAIRS = 1 << 15  # users x nodes scored at once
OTHERS = 512  # nodes of a level that the best ones are compared with

Levels = tuple[Tensor, ...]  # [U, nodes] for each level, the root first


@torch.no_grad()
def level_values(index: TreeIndex, history: Tensor, product: bool = False) -> Levels:
    """What beam search orders nodes by, for all nodes of all levels; -inf where no item is below.

    The score of a node, or with `product` the sum of log-sigmoids of taught levels on the path down to it.
    """
    shape, state = index.tree.shape, index.states(history)
    found: list[Tensor] = []
    for level in range(shape.height + 1):
        rows, told = index.level_rows(level), state(level)
        step = max(1024, PAIRS // max(len(history), 1))
        parts = [index.scorer.score_all(told, rows[i : i + step]) for i in range(0, len(rows), step)]
        values = _numbers(torch.cat(parts, 1), level)
        if product and level < min(index.first, shape.height):
            values = torch.zeros_like(values)
        elif product and level == 0:
            values = torch.nn.functional.logsigmoid(values)
        elif product:
            above = found[-1].repeat_interleave(shape.branch, 1)[:, : shape.sizes[level]]
            values = torch.nn.functional.logsigmoid(values) + above
        found.append(values.masked_fill(~index.tree.live(level), NOTHING))
    return tuple(found)


def subtree_peaks(shape: TreeShape, leaves: Tensor) -> Levels:
    """The largest value below each node of each level, from the values of the leaves [U, n]."""
    peaks = [leaves]
    for size in reversed(shape.sizes[:-1]):
        missing = size * shape.branch - peaks[-1].shape[1]
        padded = torch.nn.functional.pad(peaks[-1], (0, missing), value=NOTHING)
        peaks.append(padded.view(len(leaves), size, shape.branch).amax(2))
    return tuple(reversed(peaks))


def against(values: Tensor, peaks: Tensor, best: int, others: Tensor) -> tuple[Tensor, Tensor]:
    """How many pairs of nodes of a level are in the wrong order, and how many pairs there are: float64, twice [].

    A pair is one of the `best` nodes by their best leaf with one of `others` [O], so that what beam search decides on
    weighs most. Its order is wrong when the node with the better leaf below has the lower value; equal values are half
    wrong. Pairs whose best leaves are equal have no right order and do not count, nor do nodes without items.
    """
    top = peaks.topk(min(best, peaks.shape[1]), dim=1).indices  # [U, T]
    right = _compared(peaks.gather(1, top), peaks[:, others])  # [U, T, O]: 1, 0 or -1
    told = _compared(values.gather(1, top), values[:, others])
    live = (peaks.gather(1, top) > NOTHING)[:, :, None] & (peaks[:, others] > NOTHING)[:, None, :]
    counted = live & (right != 0)
    wrong = (counted & (right != told)).sum() - (counted & (told == 0)).sum() / 2
    return wrong.double(), counted.sum().double()


def opponents(size: int, generator: torch.Generator, most: int = OTHERS) -> Tensor:
    """The nodes of a level that others are compared with, in order: all, or so many drawn without repeats."""
    if size <= most:
        return torch.arange(size)
    return torch.randperm(size, generator=generator)[:most].sort().values


def walk_divergence(shape: TreeShape, values: Levels, first: int) -> dict[int, Tensor]:
    """KL(Q || P) in nats by level from `first` on: how far negatives drawn by walking down are from the model's own.

    P is the softmax over a level; Q begins with the softmax over level `first` and takes the softmax among siblings at
    every step from there. {level: [U]}
    """
    filled = {level: values[level].clamp(min=FINITE) for level in range(first, shape.height + 1)}
    proposals = log_proposal(shape, filled, first)
    return {level: proposal_kl(proposals[level], filled[level]) for level in filled}


def uniform_divergence(values: Tensor) -> Tensor:
    """KL(Q || P) in nats of one level [U] when Q is uniform over the nodes with items: the sampler without a tree."""
    live = values > NOTHING
    logp = values.double().log_softmax(1)
    count = live.sum(1)
    return -count.double().log() - torch.where(live, logp, 0.0).sum(1) / count


def _compared(some: Tensor, others: Tensor) -> Tensor:
    """1 where the first is larger, -1 where the second is, 0 where they are equal: [U, T], [U, O] -> [U, T, O]."""
    left, right = some[:, :, None], others[:, None, :]
    return (left > right).to(torch.int8) - (left < right).to(torch.int8)


def _numbers(values: Tensor, level: int) -> Tensor:
    broken = ~torch.isfinite(values)
    if bool(broken.any()):
        user = int(broken.any(1).nonzero()[0])
        raise DataError(
            f"tree: level {level} has a score that is no number for user {user} of the sample; "
            "train again with a lower rate"
        )
    return values
