"""Reassignment of all items from the root to the leaves, some levels at a time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.index.tree import TreeIndex
from shortlist.index.tree.assign import PRIORITIES
from shortlist.train.tree.updates.assignment import AssignmentProblem
from shortlist.train.tree.updates.likelihood import (
    Ints,
    LogLikelihood,
    Stride,
    UpdateInstances,
    gain_over_mean,
    strides_of,
    sum_by_item,
    total,
)

CELLS = 1 << 28  # numbers of a table of items and candidates in memory at a time


@dataclass(frozen=True)
class UpdateRule:
    """How items are assigned: `stride` levels at a time, by up to `instances_per_item` instances of each.

    `stay_bonus` is the bonus for staying, in nats per instance. With the `guard`, items of a node keep their old leaves
    where the new ones have a lower log-likelihood, and the whole tree stays if its own would be lower.

    With `swaps`, items swap while that raises the log-likelihood: once from the new assignment and once from the old
    one; every node takes the better result. The scorer was trained on the old tree, and assignment from scratch alone
    is worse than that tree. A gain of one stage may be lost in the next: leaving a node costs what the item has below
    it over the mean of its candidates. With the guard, a tree that still got worse is tried again with swaps alone,
    then with those of lower and lower stages; the last of them cannot lose.
    """

    stride: int = 7
    instances_per_item: int = 100
    priority: str = "count"
    stay_bonus: float = 0.0
    guard: bool = True
    chunk: int = 4096  # instances scored at a time
    seed: int = 0
    first: int = 0  # the first trained level: the first stride reaches it
    swaps: bool = True

    def __post_init__(self) -> None:
        if self.priority not in PRIORITIES:
            raise ConfigError(f"priority must be one of {', '.join(PRIORITIES)}, got {self.priority!r}")
        if min(self.stride, self.instances_per_item, self.chunk) < 1 or self.stay_bonus < 0:
            raise ConfigError(
                "tree update: stride, instances_per_item and chunk must be 1 or more, stay_bonus 0 or more, "
                f"got {self}"
            )


@dataclass(frozen=True)
class Sums:
    """Totals over the stages so far."""

    before: float = 0.0  # log-likelihood of the old tree
    after: float = 0.0
    groups: int = 0
    kept: int = 0
    assigned: int = 0  # groups that started from the assignment, not from swaps

    @property
    def gains(self) -> bool:
        """Whether the log-likelihood did not fall; False if it is NaN."""
        return self.after >= self.before

    def __add__(self, other: "Sums") -> "Sums":
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return Sums(*(one + two for one, two in pairs))


@dataclass(frozen=True, eq=False)
class Reassignment:
    """All items move from the root to the leaves, one stride per stage; items are numbered in the old order."""

    index: TreeIndex
    instances: UpdateInstances
    rule: UpdateRule
    log_likelihood: LogLikelihood
    slots: Ints  # [n] the old leaf of every item, ascending

    @cached_property
    def strides(self) -> tuple[Stride, ...]:
        """The stages. With embeddings per item, all leaves of a parent are the same for an item."""
        shape = self.index.tree.shape
        bottom = max(shape.height - (self.index.leaf_vectors == "item"), 0)
        return tuple(strides_of(shape, self.rule.stride, bottom, self.rule.first))

    @cached_property
    def leave_costs(self) -> list[NDArray[np.float64]]:
        """For every stage the loss of items in later stages if they leave their old node [n]."""
        costs = [np.zeros(len(self.slots))]
        for stride in reversed(self.strides[1:]):
            home = self.slots // self.index.tree.shape.width(stride.below)
            at = home // stride.width, home % stride.width
            gain = gain_over_mean(
                self.index, self.instances, stride, self.log_likelihood, *at, self.rule.chunk
            )
            costs.append(costs[-1] + gain.clip(min=0))
        return costs[::-1]

    def run(self, strategy: str, keep_stages: int = 0) -> tuple[Ints, Sums]:
        """The new leaf of every item [n]; all items stay in the first `keep_stages` stages."""
        node, sums, level = np.zeros(len(self.slots), np.int64), Sums(), 0
        for at, stride in enumerate(self.strides):
            bonus = self.rule.stay_bonus * self.instances.counts.astype(np.float64)
            bonus = bonus + self.leave_costs[at] if self.rule.swaps else bonus
            node, done = self._stage(stride, node, "keep" if at < keep_stages else strategy, bonus)
            sums, level = sums + done, stride.below
        return self._current(node, level, self.index.tree.shape.height), sums

    def _stage(
        self, stride: Stride, node: Ints, strategy: str, bonus: NDArray[np.float64]
    ) -> tuple[Ints, Sums]:
        """Items from their nodes to descendants, as many groups at a time as fit into memory."""
        by_group = np.argsort(node, kind="stable")  # group after group, each in the old order
        current = self._current(node, stride.level, stride.below)
        rank = np.argsort(by_group)[self.instances.items]
        by_rank = np.argsort(rank, kind="stable")
        found, sums = np.empty_like(node), Sums()
        for start, stop in _parts(node[by_group], stride.width):
            first, last = np.searchsorted(rank[by_rank], [start, stop])
            part = self.instances.take(by_rank[first:last])
            part = replace(part, items=rank[by_rank[first:last]] - start)
            items = by_group[start:stop]
            found[items], done = self._part(
                stride, part, items, node[items], current[items], strategy, bonus[items]
            )
            sums += done
        return found, sums

    def _part(
        self,
        stride: Stride,
        part: UpdateInstances,
        items: Ints,
        node: Ints,
        current: Ints,
        strategy: str,
        bonus: NDArray[np.float64],
    ) -> tuple[Ints, Sums]:
        """Some complete groups: items below `node` to its descendants, `current` without any change."""
        table = sum_by_item(
            self.index, part, stride, self.log_likelihood, node, self.rule.chunk
        )  # [n, width]
        counts, home = (
            self.instances.counts[items],
            self.slots[items] // self.index.tree.shape.width(stride.below),
        )
        first = node[0] * stride.width
        capacity = np.bincount(current - first, minlength=(node[-1] - node[0] + 1) * stride.width)
        capacity, group = capacity.reshape(-1, stride.width), node - node[0]
        current = current - node * stride.width
        values = _with_bonus(table, node * stride.width, home, bonus)
        problem = AssignmentProblem(values, capacity, group, counts, self.rule.priority)
        chosen, assigned = problem.solve(strategy, current)
        kept = np.zeros(len(capacity), bool)
        if self.rule.guard:
            kept = ~(problem.totals(chosen, table) >= problem.totals(current, table))
            chosen = np.where(kept[group], current, chosen)
        before = self._before(table, stride, part, node, home)
        after = float(table[np.arange(len(items)), chosen].sum(dtype=np.float64))
        groups = int((capacity.sum(1) > 0).sum())
        return node * stride.width + chosen, Sums(before, after, groups, int(kept.sum()), assigned)

    def _current(self, node: Ints, level: int, below: int) -> Ints:
        """Where items of nodes at a level are below them without any change [n].

        A node with the items it had keeps them where they were: free slots stay where they are.
        """
        return self._at_home(node, level, below) if self.rule.swaps else self._in_old_order(node, below)

    def _at_home(self, node: Ints, level: int, below: int) -> Ints:
        """Items still below their old node stay; the others take the free slots there, in their old order."""
        shape = self.index.tree.shape
        found = self.slots // shape.width(below)
        moved = np.flatnonzero(self.slots // shape.width(level) != node)
        found[moved[np.argsort(node[moved], kind="stable")]] = found[moved]
        return found

    def _in_old_order(self, node: Ints, below: int) -> Ints:
        """Items of every node on its leaves in their old order; returns their nodes at the lower level [n]."""
        found = np.empty_like(node)
        found[np.argsort(node, kind="stable")] = self.slots // self.index.tree.shape.width(below)
        return found

    def _before(
        self, table: NDArray[np.float32], stride: Stride, part: UpdateInstances, node: Ints, home: Ints
    ) -> float:
        """Log-likelihood of the old tree at this stage; items that left their old node are scored there again."""
        above, child = home // stride.width, home % stride.width
        stayed = np.flatnonzero(above == node)
        summed = float(table[stayed, child[stayed]].sum(dtype=np.float64))
        left = part.take(np.flatnonzero((above != node)[part.items]))
        return summed + total(self.index, left, stride, self.log_likelihood, above, child, self.rule.chunk)


def reassign(task: Reassignment) -> tuple[Ints, Sums, Sums, int]:
    """The first pass that does not lose, or the last one; its totals, those of the first pass, and the passes made."""
    node, sums = task.run("best" if task.rule.swaps else "assign")
    first, tries = sums, 1
    if task.rule.guard and task.rule.swaps:
        for keep_stages in range(0 if sums.assigned else 1, len(task.strides)):
            if sums.gains:
                break
            node, sums = task.run("swap", keep_stages)
            tries += 1
    return node, sums, first, tries


def _with_bonus(
    table: NDArray[np.float32], first: Ints, home: Ints, bonus: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The table plus the bonus where an item would stay below its old node."""
    if not bonus.any():
        return table
    near = np.flatnonzero((home >= first) & (home < first + table.shape[1]))
    raised = table.copy()
    raised[near, (home - first)[near]] += bonus[near].astype(np.float32)
    return raised


def _parts(groups: Ints, width: int) -> Iterator[tuple[int, int]]:
    """Slices of ascending `groups` that end at a group's end and hold at most CELLS, or a single group."""
    most, start = max(CELLS // width, 1), 0
    while start < len(groups):
        stop = len(groups)
        if stop - start > most:
            cut = groups[start + most]
            stop = int(np.searchsorted(groups, cut if cut > groups[start] else cut + 1))
        yield start, stop
        start = stop
