"""How far a query's vector is from walking to every leaf that holds the item it wants."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.index.jtr import JTRIndex, LeafTree, descend

Draw = Callable[[int, int], Tensor]
"""(how many, below what) -> whole numbers to choose by, int64 on the device of the tree."""

CHUNK = 1 << 24  # numbers gathered at once where the beam is walked


@dataclass(frozen=True, eq=False)
class Level:
    """What competes at one depth of a walk, and what each item wants there."""

    depth: int
    front: Tensor  # nodes, int64 [F]
    wanted: Tensor  # the nodes above every leaf of an item, each once, as places in `front` [N, C]; -1 = none
    place: Tensor  # the place of each node in `front` [nodes + 1], -1 = elsewhere; the last is of no node


@dataclass(frozen=True, eq=False)
class PathLoss:
    """Softmax at every depth, the positive node against what a search would have to choose it from.

    An item of several leaves has several positives at a depth; each has its own loss, they do not compete with each
    other, and none is left out. Rivals are all other nodes of the depth where these are at most `negatives`. Otherwise
    they are the nodes the beam takes, counted one by one, and `negatives` drawn ones that stand for all the rest, so
    that the sum below the fraction is unbiased.
    """

    tree: LeafTree
    negatives: int = 50
    beam: int = 10

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The depths at which there is a choice, from the top."""
        made = (level_of(self.tree, depth) for depth in range(1, self.tree.height + 1))
        return tuple(level for level in made if len(level.front) > 1)

    def __call__(self, queries: Tensor, items: Tensor, nodes: Tensor, draw: Draw) -> Tensor:
        """The mean over depths of the mean loss of all positives; queries [Q, D], items [Q], nodes [nodes, D]."""
        narrow = any(len(level.front) > self.negatives for level in self.levels)
        beams = self.beams(queries.detach(), nodes.detach()) if narrow else []
        losses = []
        for level in self.levels:
            wanted = level.wanted[items]  # [Q, C]
            if len(level.front) <= self.negatives:
                losses.append(whole_loss(queries, nodes[level.front], wanted))
            else:
                taken = level.place[beams[level.depth - 1]]  # [Q, W]
                drawn = draw(self.negatives, len(level.front))
                losses.append(narrow_loss(queries, nodes[level.front], wanted, taken, drawn))
        return torch.stack(losses).mean() if losses else queries.new_zeros(())

    def beams(self, queries: Tensor, nodes: Tensor) -> list[Tensor]:
        """The nodes a search keeps at each depth, as the weights are now."""
        index = JTRIndex(self.tree, nodes)
        each = self.beam * self.tree.onward.shape[1] * queries.shape[1]
        parts = [descend(index, part, self.beam) for part in torch.split(queries, max(1, CHUNK // each))]
        return [torch.cat(one) for one in zip(*parts, strict=True)]


def level_of(tree: LeafTree, depth: int) -> Level:
    """The front of a depth, with the places of every item's ancestors in it."""
    front = tree.front(depth)
    place = torch.full((tree.n_nodes + 1,), -1, device=tree.device)
    place[front] = torch.arange(len(front), device=tree.device)
    homes = tree.homes  # [N, C]
    above = torch.where(homes >= 0, place[tree.paths[homes.clamp(min=0), depth]], -1)
    above = above.sort(dim=1, descending=True).values
    again = torch.zeros_like(above, dtype=torch.bool)
    again[:, 1:] = above[:, 1:] == above[:, :-1]
    return Level(depth, front, above.masked_fill(again, -1), place)


def whole_loss(queries: Tensor, front: Tensor, wanted: Tensor) -> Tensor:
    """Every node of the front [F, D] that is not wanted [Q, C] is a rival."""
    scores = queries @ front.T  # [Q, F]
    own = scores.gather(1, wanted.clamp(min=0))
    return _mean_loss(own, wanted >= 0, _without(scores, wanted).logsumexp(1, keepdim=True))


def narrow_loss(queries: Tensor, front: Tensor, wanted: Tensor, taken: Tensor, drawn: Tensor) -> Tensor:
    """Rivals are the nodes a beam has taken [Q, W], and drawn ones [M], alike for all, that stand for the others."""
    own = torch.einsum("qd,qcd->qc", queries, front[wanted.clamp(min=0)])
    met = (taken[:, :, None] == wanted[:, None, :]).any(2) | (taken < 0)  # [Q, W], no rivals
    near = torch.einsum("qd,qwd->qw", queries, front[taken.clamp(min=0)]).masked_fill(met, -torch.inf)
    known = torch.cat([wanted, taken.masked_fill(met, -1)], dim=1)  # each place once
    rest = ~(drawn[None, :, None] == known[:, None, :]).any(2)  # [Q, M]
    left = len(front) - (known >= 0).sum(1, keepdim=True)
    lift = (left / rest.sum(1, keepdim=True).clamp(min=1)).clamp(min=1e-9).log()
    far = (queries @ front[drawn].T + lift).masked_fill(~rest, -torch.inf)
    return _mean_loss(own, wanted >= 0, torch.cat([near, far], dim=1).logsumexp(1, keepdim=True))


def _without(scores: Tensor, wanted: Tensor) -> Tensor:
    """Scores [Q, F] with -inf at the wanted places [Q, C]."""
    wide = torch.nn.functional.pad(scores, (0, 1))  # a place for what is none
    at = torch.where(wanted < 0, scores.shape[1], wanted)
    return wide.scatter(1, at, -torch.inf)[:, :-1]


def _mean_loss(own: Tensor, there: Tensor, rivals: Tensor) -> Tensor:
    """-log(exp(own) / (exp(own) + exp(rivals))), the mean over positives that are there [Q, C]."""
    losses = torch.nn.functional.softplus(rivals - own)  # of -inf it is 0: no rival, no loss
    return torch.where(there, losses, 0.0).sum() / there.sum().clamp(min=1)
