"""Loss of the paths from the root to every leaf of the target item."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.index.jtr import JTRIndex, LeafTree, descend

RandomIntegers = Callable[[int, int], Tensor]
"""(count, bound) -> random integers below the bound, int64 on the device of the tree."""

CHUNK = 1 << 24  # numbers gathered at once in beam search


@dataclass(frozen=True, eq=False)
class Level:
    """The candidate nodes of one depth, and the positive ones of each item."""

    depth: int
    front: Tensor  # nodes, int64 [F]
    positives: (
        Tensor  # ancestors of every leaf of an item, each once, as positions in `front` [N, C]; -1 = none
    )
    position: Tensor  # position of each node in `front` [nodes + 1], -1 = another depth; the last is padding


@dataclass(frozen=True, eq=False)
class PathLoss:
    """Softmax at every depth, the positive node against the other nodes.

    An item in several leaves has several positives at a depth; each has its own loss and is no negative of the others.
    Negatives are all other nodes of a depth with at most `negatives` nodes. Otherwise they are the nodes in the beam,
    with weight 1, and `negatives` random nodes that represent the rest, so that the partition function is unbiased.
    """

    tree: LeafTree
    negatives: int = 50
    beam: int = 10

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The depths with more than one node, from the top."""
        levels = (level_of(self.tree, depth) for depth in range(1, self.tree.height + 1))
        return tuple(level for level in levels if len(level.front) > 1)

    def __call__(
        self,
        queries: Tensor,
        items: Tensor,
        nodes: Tensor,
        sample: RandomIntegers,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The mean over depths of the mean loss of all positives; queries [Q, D], items [Q], nodes [nodes, D].

        `weights` [Q] multiply the losses.
        """
        sampled = any(len(level.front) > self.negatives for level in self.levels)
        beams = self.beams(queries.detach(), nodes.detach()) if sampled else []
        losses = []
        for level in self.levels:
            positives = level.positives[items]  # [Q, C]
            if len(level.front) <= self.negatives:
                losses.append(full_loss(queries, nodes[level.front], positives, weights))
            else:
                in_beam = level.position[beams[level.depth - 1]]  # [Q, W]
                random = sample(self.negatives, len(level.front))
                losses.append(sampled_loss(queries, nodes[level.front], positives, in_beam, random, weights))
        return torch.stack(losses).mean() if losses else queries.new_zeros(())

    def beams(self, queries: Tensor, nodes: Tensor) -> list[Tensor]:
        """The nodes in the beam at each depth, under the current weights."""
        index = JTRIndex(self.tree, nodes)
        each = self.beam * self.tree.onward.shape[1] * queries.shape[1]
        parts = [descend(index, part, self.beam) for part in torch.split(queries, max(1, CHUNK // each))]
        return [torch.cat(one) for one in zip(*parts, strict=True)]


def level_of(tree: LeafTree, depth: int) -> Level:
    """The nodes of a depth, with the positions of every item's ancestors among them."""
    front = tree.front(depth)
    position = torch.full((tree.n_nodes + 1,), -1, device=tree.device)
    position[front] = torch.arange(len(front), device=tree.device)
    homes = tree.homes  # [N, C]
    above = torch.where(homes >= 0, position[tree.paths[homes.clamp(min=0), depth]], -1)
    above = above.sort(dim=1, descending=True).values
    repeated = torch.zeros_like(above, dtype=torch.bool)
    repeated[:, 1:] = above[:, 1:] == above[:, :-1]
    return Level(depth, front, above.masked_fill(repeated, -1), position)


def full_loss(queries: Tensor, front: Tensor, positives: Tensor, weights: Tensor | None = None) -> Tensor:
    """Every node of the depth [F, D] that is not positive [Q, C] is a negative."""
    scores = queries @ front.T  # [Q, F]
    own = scores.gather(1, positives.clamp(min=0))
    return _mean_loss(own, positives >= 0, _without(scores, positives).logsumexp(1, keepdim=True), weights)


def sampled_loss(
    queries: Tensor,
    front: Tensor,
    positives: Tensor,
    in_beam: Tensor,
    random: Tensor,
    weights: Tensor | None = None,
) -> Tensor:
    """Negatives are the nodes in the beam [Q, W], and random nodes [M], shared by all, that represent the others."""
    own = torch.einsum("qd,qcd->qc", queries, front[positives.clamp(min=0)])
    ignored = (in_beam[:, :, None] == positives[:, None, :]).any(2) | (in_beam < 0)  # [Q, W], no negatives
    near = torch.einsum("qd,qwd->qw", queries, front[in_beam.clamp(min=0)]).masked_fill(ignored, -torch.inf)
    known = torch.cat([positives, in_beam.masked_fill(ignored, -1)], dim=1)  # each position once
    rest = ~(random[None, :, None] == known[:, None, :]).any(2)  # [Q, M]
    left = len(front) - (known >= 0).sum(1, keepdim=True)
    log_weight = (left / rest.sum(1, keepdim=True).clamp(min=1)).clamp(min=1e-9).log()
    far = (queries @ front[random].T + log_weight).masked_fill(~rest, -torch.inf)
    negatives = torch.cat([near, far], dim=1).logsumexp(1, keepdim=True)
    return _mean_loss(own, positives >= 0, negatives, weights)


def _without(scores: Tensor, positives: Tensor) -> Tensor:
    """Scores [Q, F] with -inf at the positives [Q, C]."""
    padded = torch.nn.functional.pad(scores, (0, 1))  # one more column for padding
    at = torch.where(positives < 0, scores.shape[1], positives)
    return padded.scatter(1, at, -torch.inf)[:, :-1]


def _mean_loss(own: Tensor, exists: Tensor, negatives: Tensor, weights: Tensor | None) -> Tensor:
    """-log(exp(own) / (exp(own) + exp(negatives))), the mean over existing positives [Q, C], times weights [Q]."""
    losses = torch.nn.functional.softplus(negatives - own)  # 0 without any negative
    if weights is not None:
        losses, exists = losses * weights[:, None], exists & (weights > 0)[:, None]
    return torch.where(exists, losses, 0.0).sum() / exists.sum().clamp(min=1)
