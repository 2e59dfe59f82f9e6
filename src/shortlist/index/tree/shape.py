"""The shape of a tree with all leaves at the bottom level: integers only, no pointers."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

from torch import Tensor

from shortlist.errors import ConfigError

Node = TypeVar("Node", int, Tensor)


@dataclass(frozen=True)
class TreeShape:
    """A bottom-aligned tree of `n` leaves: a level has ceil(m / branch) nodes if the level below has m.

    Node (j, i) is the i-th of level j; the root is (0, 0), leaves are (height, 0 .. n - 1). Only the last node of a
    level can have fewer than `branch` children. Rows of the node table are level after level: offsets[j] + i.
    """

    n: int
    branch: int = 2

    def __post_init__(self) -> None:
        if not _is_integer(self.n) or self.n < 1:
            raise ConfigError(f"a tree needs an integer number of leaves, at least 1, got {self.n!r}")
        if not _is_integer(self.branch) or self.branch < 2:
            raise ConfigError(f"a tree needs an integer number of branches, at least 2, got {self.branch!r}")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes per level, the root first."""
        sizes = [self.n]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // self.branch))
        return tuple(reversed(sizes))

    @cached_property
    def height(self) -> int:
        """The level of the leaves: the smallest h with branch ** h >= n."""
        return len(self.sizes) - 1

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The row of the first node of every level."""
        return tuple(accumulate(self.sizes[:-1], initial=0))

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes, including the root."""
        return sum(self.sizes)

    def width(self, level: int) -> int:
        """Leaves under a full node of this level."""
        return int(self.branch ** (self.height - level))

    def ancestor(self, leaf: Node, level: int) -> Node:
        """The ancestor of a leaf in `level`."""
        return leaf // self.width(level)

    def parent(self, index: Node) -> Node:
        """The parent, an index in the level above."""
        return index // self.branch

    def children(self, level: int, index: int) -> range:
        """The children, indices in the level below; none for a leaf."""
        if level >= self.height:
            return range(0)
        first = index * self.branch
        return range(first, min(first + self.branch, self.sizes[level + 1]))

    def leaves(self, level: int, index: int) -> range:
        """The leaves below a node; a leaf itself for a leaf."""
        width = self.width(level)
        return range(index * width, min((index + 1) * width, self.n))

    def start(self, beam: int) -> int:
        """The first level with more nodes than `beam`, at most the leaves: a beam drops nothing above it."""
        return next((level for level, size in enumerate(self.sizes) if size > beam), self.height)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
