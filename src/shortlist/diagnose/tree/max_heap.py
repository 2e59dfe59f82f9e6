"""The max-heap property of node scores, and the distance of negative samplers from the model.

Beam search keeps the best nodes of a level. It loses nothing if the nodes of every level are ordered like the best leaf
below each of them (max-heap property). Only the order counts, so scores of different levels may have different scales.
"""

import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.train.tree import log_proposal, proposal_kl

NOTHING = float("-inf")  # score of a node without items
FINITE = -1e30  # in place of -inf where a difference would be NaN
PAIRS = 1 << 15  # users x nodes scored at once
OTHERS = 512  # nodes of a level that the best ones are compared with

Levels = tuple[Tensor, ...]  # [U, nodes] for each level, the root first


@torch.no_grad()
def level_scores(index: TreeIndex, history: Tensor, product: bool = False) -> Levels:
    """The values that beam search orders nodes by, for all nodes of all levels; -inf for nodes without items.

    The score of a node, or with `product` the sum of log-sigmoids of trained levels on its path.
    """
    shape, state = index.tree.shape, index.states(history)
    found: list[Tensor] = []
    for level in range(shape.height + 1):
        rows, prepared = index.level_rows(level), state(level)
        step = max(1024, PAIRS // max(len(history), 1))
        parts = [index.scorer.score_all(prepared, rows[i : i + step]) for i in range(0, len(rows), step)]
        values = _finite(torch.cat(parts, 1), level)
        if product and level < min(index.first, shape.height):
            values = torch.zeros_like(values)
        elif product and level == 0:
            values = torch.nn.functional.logsigmoid(values)
        elif product:
            above = found[-1].repeat_interleave(shape.branch, 1)[:, : shape.sizes[level]]
            values = torch.nn.functional.logsigmoid(values) + above
        found.append(values.masked_fill(~index.tree.live(level), NOTHING))
    return tuple(found)


def subtree_max(shape: TreeShape, leaves: Tensor) -> Levels:
    """The largest value below each node of each level, from the values of the leaves [U, n]."""
    peaks = [leaves]
    for size in reversed(shape.sizes[:-1]):
        missing = size * shape.branch - peaks[-1].shape[1]
        padded = torch.nn.functional.pad(peaks[-1], (0, missing), value=NOTHING)
        peaks.append(padded.view(len(leaves), size, shape.branch).amax(2))
    return tuple(reversed(peaks))


def order_violations(values: Tensor, peaks: Tensor, best: int, others: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of nodes of a level that violate the max-heap order, and all pairs: float64, twice [].

    A pair is one of the `best` nodes by their best leaf and one of `others` [O], because these decide beam search. The
    order is violated if the node with the better leaf has the lower value; equal values count half. Pairs with equal
    best leaves and nodes without items are not counted.
    """
    top = peaks.topk(min(best, peaks.shape[1]), dim=1).indices  # [U, T]
    correct = _sign(peaks.gather(1, top), peaks[:, others])  # [U, T, O]: 1, 0 or -1
    actual = _sign(values.gather(1, top), values[:, others])
    live = (peaks.gather(1, top) > NOTHING)[:, :, None] & (peaks[:, others] > NOTHING)[:, None, :]
    counted = live & (correct != 0)
    wrong = (counted & (correct != actual)).sum() - (counted & (actual == 0)).sum() / 2
    return wrong.double(), counted.sum().double()


def comparison_nodes(size: int, generator: torch.Generator, most: int = OTHERS) -> Tensor:
    """The nodes of a level to compare with, in order: all, or a random sample without replacement."""
    if size <= most:
        return torch.arange(size)
    return torch.randperm(size, generator=generator)[:most].sort().values


def tree_sampler_kl(shape: TreeShape, values: Levels, first: int) -> dict[int, Tensor]:
    """KL(Q || P) in nats by level from `first` on: the distance of tree-based sampling from the model.

    P is the softmax over a level. Q starts with the softmax over level `first` and goes to a child by the softmax over
    siblings at every level below. {level: [U]}
    """
    filled = {level: values[level].clamp(min=FINITE) for level in range(first, shape.height + 1)}
    proposals = log_proposal(shape, filled, first)
    return {level: proposal_kl(proposals[level], filled[level]) for level in filled}


def uniform_kl(values: Tensor) -> Tensor:
    """KL(Q || P) in nats of one level [U] for Q uniform over the nodes with items."""
    live = values > NOTHING
    logp = values.double().log_softmax(1)
    count = live.sum(1)
    return -count.double().log() - torch.where(live, logp, 0.0).sum(1) / count


def _sign(some: Tensor, others: Tensor) -> Tensor:
    """1 where the first is larger, -1 where the second is, 0 where they are equal: [U, T], [U, O] -> [U, T, O]."""
    left, right = some[:, :, None], others[:, None, :]
    return (left > right).to(torch.int8) - (left < right).to(torch.int8)


def _finite(values: Tensor, level: int) -> Tensor:
    broken = ~torch.isfinite(values)
    if bool(broken.any()):
        user = int(broken.any(1).nonzero()[0])
        raise DataError(
            f"tree: level {level} has a score that is not finite for user {user} of the sample; "
            "train again with a lower learning rate"
        )
    return values
