"""A better place for every item in the tree, under the scorer as it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shortlist.errors import ConfigError
from shortlist.index.tree import TreeIndex
from shortlist.index.tree.assign import PRIORITIES
from shortlist.index.tree.order import by_vectors
from shortlist.train.tree.places import Places
from shortlist.train.tree.votes import (
    Histories,
    Measure,
    Step,
    Voters,
    Whole,
    lead_of_votes,
    sigmoid_votes,
    softmax_votes,
    steps_of,
    sum_votes,
    total_votes,
    voters_of,
)

CELLS = 1 << 28  # numbers of a table of items and candidates in memory at a time


@dataclass(frozen=True)
class UpdateRule:
    """How items are laid anew: `stride` levels at a time, by the votes of up to `cap` instances per item.

    `sticky` is what staying is worth, in nats per instance. With the `guard`, items of a node keep their old places
    where the new ones have a lower log-likelihood, and the whole tree stays when its own would be lower.

    With `improve`, items change places while that gains, once from where serving them put them and once from where
    they stand; every node takes the better of both. A scorer has learned the tree it was taught on, and serving alone
    falls behind that tree. What a stage gains the next may lose: leaving a node costs what the item has below it over
    the mean of its candidates. With the guard, a tree that still got worse is tried again with changes of place alone,
    then with those of lower and lower stages; the last of them cannot lose.
    """

    stride: int = 7
    cap: int = 100
    priority: str = "count"
    sticky: float = 0.0
    guard: bool = True
    chunk: int = 4096  # instances scored at a time
    seed: int = 0
    first: int = 0  # the first level that was taught: the first stride reaches it
    improve: bool = True

    def __post_init__(self) -> None:
        if self.priority not in PRIORITIES:
            raise ConfigError(f"priority must be one of {', '.join(PRIORITIES)}, got {self.priority!r}")
        if min(self.stride, self.cap, self.chunk) < 1 or self.sticky < 0:
            raise ConfigError(
                f"tree update: stride, cap and chunk must be 1 or more, sticky 0 or more, got {self}"
            )


@dataclass(frozen=True)
class UpdateReport:
    """What an update did; log-likelihoods are of all instances, estimated from those that voted.

    They add up over the stages: how likely the item's node is among the descendants of its node a stage above.
    """

    moved: float  # share of items at another leaf
    before: float | None = None  # log-likelihood of the tree as it was
    proposed: float | None = None  # of what was found first
    after: float | None = None  # of what is returned
    groups: int = 0  # nodes whose items were laid anew
    kept_groups: int = 0  # those that kept the old order of their items
    refused: bool = False  # the old tree was better and stays
    instances: int = 0  # that voted
    unseen: int = 0  # items nobody voted for
    tries: int = 1  # walks from the root to the leaves, more than one where the first found a worse tree

    def as_dict(self) -> dict[str, Any]:
        """The plain values."""
        return asdict(self)


def dtr_update(
    index: TreeIndex, histories: Tensor | Histories, labels: Tensor, rule: UpdateRule | None = None
) -> tuple[Tensor, UpdateReport]:
    """The new `item_of_leaf` by softmax log-likelihoods (section 4.4 of the DTR paper), and what was done.

    Histories [m, K] of items, or a function from rows to them, are seen through the old tree; labels [m] are items.
    Free slots stay where they are.
    """
    return _update(index, histories, labels, rule or UpdateRule(), softmax_votes)


def jtm_update(
    index: TreeIndex, histories: Tensor | Histories, labels: Tensor, rule: UpdateRule | None = None
) -> tuple[Tensor, UpdateReport]:
    """`dtr_update` by sums of log sigmoids on the way down, as JTM (Zhu et al., 2019) learns its tree."""
    return _update(index, histories, labels, rule or UpdateRule(), sigmoid_votes)


def tdm_update(index: TreeIndex, seed: int = 0) -> tuple[Tensor, UpdateReport]:
    """The new `item_of_leaf` by recursive balanced k-means on the vectors of the leaves, as TDM (Zhu et al., 2018)."""
    tree = index.tree
    slots = (tree.item_of_leaf >= 0).nonzero()[:, 0]
    vectors = index.scorer.nodes.weight.detach()[index.rows(tree.shape.height, slots)]  # [n, D]
    order = by_vectors(vectors, tree.shape.branch, seed).to(slots.device)
    leaves = torch.full_like(tree.item_of_leaf, -1).index_put((slots,), tree.item_of_leaf[slots[order]])
    return leaves, UpdateReport(_moved(tree.item_of_leaf, leaves))


@torch.no_grad()
def _update(
    index: TreeIndex, histories: Tensor | Histories, labels: Tensor, rule: UpdateRule, measure: Measure
) -> tuple[Tensor, UpdateReport]:
    tree = index.tree
    voters = voters_of(tree, histories, labels, rule.cap, rule.seed)
    old = tree.item_of_leaf.cpu().numpy()
    walk = _Walk(index, voters, rule, measure, np.flatnonzero(old >= 0))
    with _calm(index.scorer):
        node, sums, first, tries = _walked(walk)
    leaves = np.full_like(old, -1)
    leaves[node] = old[walk.slots]
    refused = rule.guard and not sums.gains
    found = tree.item_of_leaf if refused else torch.from_numpy(leaves).to(tree.item_of_leaf.device)
    return found, UpdateReport(
        moved=_moved(tree.item_of_leaf, found),
        before=sums.before,
        proposed=first.after,
        after=sums.before if refused else sums.after,
        groups=sums.groups,
        kept_groups=sums.kept,
        refused=refused,
        instances=len(voters.places),
        unseen=int((voters.counts == 0).sum()),
        tries=tries,
    )


def _walked(walk: "_Walk") -> tuple[Whole, "_Sums", "_Sums", int]:
    """The first walk that does not lose, or the last; what it and the very first add up to, and how many there were."""
    node, sums = walk.run("better" if walk.rule.improve else "serve")
    first, tries = sums, 1
    if walk.rule.guard and walk.rule.improve:
        for still in range(0 if sums.served else 1, len(walk.steps)):
            if sums.gains:
                break
            node, sums = walk.run("change", still)
            tries += 1
    return node, sums, first, tries


@dataclass(frozen=True)
class _Sums:
    """What the stages so far add up to."""

    before: float = 0.0
    after: float = 0.0
    groups: int = 0
    kept: int = 0
    served: int = 0  # groups that took what serving began

    @property
    def gains(self) -> bool:
        """Whether nothing is lost. Not `<`: a log-likelihood that is no number is no reason to move."""
        return self.after >= self.before

    def __add__(self, other: "_Sums") -> "_Sums":
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return _Sums(*(one + two for one, two in pairs))


@dataclass(frozen=True, eq=False)
class _Walk:
    """All items walk from the root to the leaves, some levels at a time; item p is the p-th in the old order."""

    index: TreeIndex
    voters: Voters
    rule: UpdateRule
    measure: Measure
    slots: Whole  # [n] the old leaf of every item, ascending

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The stages. An item may carry its vector to whatever leaf: the leaves of a parent are alike to it then."""
        shape, rule = self.index.tree.shape, self.rule
        bottom = max(shape.height - (self.index.leaf_vectors == "item"), 0)
        return tuple(steps_of(shape, rule.stride, bottom, rule.first))

    @cached_property
    def ahead(self) -> list[NDArray[np.float64]]:
        """For every stage what items would lose in the later ones by leaving their old node [n]."""
        lose = [np.zeros(len(self.slots))]
        for step in reversed(self.steps[1:]):
            home = self.slots // self.index.tree.shape.width(step.below)
            places = home // step.width, home % step.width
            lead = lead_of_votes(self.index, self.voters, step, self.measure, *places, self.rule.chunk)
            lose.append(lose[-1] + lead.clip(min=0))
        return lose[::-1]

    def run(self, way: str, still: int = 0) -> tuple[Whole, _Sums]:
        """The new leaf of every item [n], when all stay in the first `still` stages."""
        node, sums, level = np.zeros(len(self.slots), np.int64), _Sums(), 0
        for at, step in enumerate(self.steps):
            bonus = self.rule.sticky * self.voters.counts.astype(np.float64)
            bonus = bonus + self.ahead[at] if self.rule.improve else bonus
            node, done = self._stage(step, node, "stay" if at < still else way, bonus)
            sums, level = sums + done, step.below
        return self._usual(node, level, self.index.tree.shape.height), sums

    def _stage(self, step: Step, node: Whole, way: str, bonus: NDArray[np.float64]) -> tuple[Whole, _Sums]:
        """Items from their nodes to descendants, as many groups at a time as fit into memory."""
        turn = np.argsort(node, kind="stable")  # group after group, each in the old order
        usual = self._usual(node, step.level, step.below)
        rank = np.argsort(turn)[self.voters.places]
        by_rank = np.argsort(rank, kind="stable")
        found, sums = np.empty_like(node), _Sums()
        for start, stop in _parts(node[turn], step.width):
            first, last = np.searchsorted(rank[by_rank], [start, stop])
            some = self.voters.take(by_rank[first:last])
            some = replace(some, places=rank[by_rank[first:last]] - start)
            mine = turn[start:stop]
            found[mine], done = self._part(step, some, mine, node[mine], usual[mine], way, bonus[mine])
            sums += done
        return found, sums

    def _part(
        self,
        step: Step,
        some: Voters,
        mine: Whole,
        node: Whole,
        usual: Whole,
        way: str,
        bonus: NDArray[np.float64],
    ) -> tuple[Whole, _Sums]:
        """Some whole groups: items `mine` below `node` to descendants of it, `usual` when nothing is learned."""
        table = sum_votes(self.index, some, step, self.measure, node, self.rule.chunk)  # [n, width]
        counts, home = self.voters.counts[mine], self.slots[mine] // self.index.tree.shape.width(step.below)
        room = np.bincount(usual - node[0] * step.width, minlength=(node[-1] - node[0] + 1) * step.width)
        room, group, usual = room.reshape(-1, step.width), node - node[0], usual - node * step.width
        wished = _with_bonus(table, node * step.width, home, bonus)
        places = Places(wished, room, group, counts, self.rule.priority)
        chosen, served = places.found(way, usual)
        kept = np.zeros(len(room), bool)
        if self.rule.guard:
            kept = ~(places.totals(chosen, table) >= places.totals(usual, table))
            chosen = np.where(kept[group], usual, chosen)
        before = self._before(table, step, some, node, home)
        after = float(table[np.arange(len(mine)), chosen].sum(dtype=np.float64))
        groups = int((room.sum(1) > 0).sum())
        return node * step.width + chosen, _Sums(before, after, groups, int(kept.sum()), served)

    def _usual(self, node: Whole, level: int, below: int) -> Whole:
        """Where items of nodes at a level stand below them when nothing is learned [n].

        Where a node has the items it had, that is where they were: free slots stay where they are.
        """
        return self._at_home(node, level, below) if self.rule.improve else self._in_old_order(node, below)

    def _at_home(self, node: Whole, level: int, below: int) -> Whole:
        """Who is still below the same node stays; the others take the places left there, in their old order."""
        shape = self.index.tree.shape
        found = self.slots // shape.width(below)
        gone = np.flatnonzero(self.slots // shape.width(level) != node)
        found[gone[np.argsort(node[gone], kind="stable")]] = found[gone]
        return found

    def _in_old_order(self, node: Whole, below: int) -> Whole:
        """Items of every node laid on its leaves in their old order; gives their nodes at the lower level [n]."""
        found = np.empty_like(node)
        found[np.argsort(node, kind="stable")] = self.slots // self.index.tree.shape.width(below)
        return found

    def _before(
        self, table: NDArray[np.float32], step: Step, some: Voters, node: Whole, home: Whole
    ) -> float:
        """The log-likelihood of the old tree at this step; items that left their old node are scored there again."""
        above, child = home // step.width, home % step.width
        stayed = np.flatnonzero(above == node)
        total = float(table[stayed, child[stayed]].sum(dtype=np.float64))
        left = some.take(np.flatnonzero((above != node)[some.places]))
        return total + total_votes(self.index, left, step, self.measure, above, child, self.rule.chunk)


def _with_bonus(
    table: NDArray[np.float32], first: Whole, home: Whole, bonus: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The table, lifted where an item would stay below the node it was below."""
    if not bonus.any():
        return table
    near = np.flatnonzero((home >= first) & (home < first + table.shape[1]))
    lifted = table.copy()
    lifted[near, (home - first)[near]] += bonus[near].astype(np.float32)
    return lifted


def _parts(groups: Whole, width: int) -> Iterator[tuple[int, int]]:
    """Slices of ascending `groups` that end where a group ends and hold few cells, or a single group."""
    most, start = max(CELLS // width, 1), 0
    while start < len(groups):
        stop = len(groups)
        if stop - start > most:
            cut = groups[start + most]
            stop = int(np.searchsorted(groups, cut if cut > groups[start] else cut + 1))
        yield start, stop
        start = stop


@contextmanager
def _calm(scorer: nn.Module) -> Iterator[None]:
    """The scorer without dropout, and as it was afterwards."""
    was = scorer.training
    scorer.eval()
    try:
        yield
    finally:
        scorer.train(was)


def _moved(old: Tensor, new: Tensor) -> float:
    """The share of items that stand at another leaf."""
    return float(((old != new) & (new >= 0)).sum() / (new >= 0).sum().clamp(min=1))
