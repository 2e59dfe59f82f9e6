"""A tree with a scorer of its nodes: what a search walks on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.errors import ArtifactError, ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree
from shortlist.models.nodes import NodeScorer, State, load_scorer

KINDS = ("slot", "item")


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """Says which row of the node table belongs to which node.

    With `leaf_vectors="slot"` the vector of a leaf stays when its item moves, with "item" it moves along. Levels above
    `first` were never taught: no search asks them, however narrow its beam.
    """

    tree: Tree
    scorer: NodeScorer
    leaf_vectors: str = "slot"
    first: int = 1

    def __post_init__(self) -> None:
        height = self.tree.shape.height
        if not 1 <= self.first <= max(height, 1):
            raise ConfigError(f"the first taught level must lie between 1 and {height}, got {self.first}")
        needed = n_rows(self.tree.shape, self.tree.n_items, self.leaf_vectors)
        config = self.scorer.config
        if config.n_rows != needed:
            raise ConfigError(f"the tree needs a node table of {needed} rows, the scorer has {config.n_rows}")
        if config.history == "item" and config.n_items < self.tree.n_items:
            raise ConfigError(
                f"the tree has {self.tree.n_items} items, the scorer a table of {config.n_items}; "
                "give it one row for each"
            )

    def to(self, device: torch.device | str) -> "TreeIndex":
        """The same index on another device."""
        return TreeIndex(self.tree.to(device), self.scorer.to(device), self.leaf_vectors, self.first)

    def start(self, beam: int) -> int:
        """The level a search begins with: the first that a beam does not hold whole, and that was taught."""
        return min(max(self.tree.shape.start(beam), self.first), self.tree.shape.height)

    def rows(self, level: int, index: Tensor) -> Tensor:
        """The rows of nodes of one level, int64; nodes past the end and free slots get the row of another node."""
        shape = self.tree.shape
        near = index.clamp(max=shape.sizes[level] - 1)
        if level == shape.height and self.leaf_vectors == "item":
            return self.leaf_rows[near]
        return near + shape.offsets[level]

    def level_rows(self, level: int) -> Tensor:
        """The rows of all nodes of a level, in order [nodes]."""
        shape = self.tree.shape
        if level == shape.height and self.leaf_vectors == "item":
            return self.leaf_rows
        first = shape.offsets[level]
        return torch.arange(first, first + shape.sizes[level], device=self.tree.device)

    @cached_property
    def leaf_rows(self) -> Tensor:
        """The rows of leaves when vectors belong to items, int64 [slots]."""
        return self.tree.shape.offsets[-1] + self.tree.item_of_leaf.clamp(min=0).long()

    def history_rows(self, level: int, history: Tensor) -> Tensor:
        """The rows that stand for the items of histories [U, K] while nodes of `level` are scored, -1 = nothing.

        Ancestors: the node of the level above each item, nothing for an item without a leaf. Items: themselves,
        also those without a leaf, since their vectors remain.
        """
        if self.scorer.config.history == "item":
            known = (history >= 0) & (history < self.scorer.config.n_items)
            return torch.where(known, history, -1)
        return self._ancestor_rows(level, self.tree.leaves(history))

    def state(self, history: Tensor, level: int) -> State:
        """What the scorer knows of users [U, K] when it scores nodes of `level`."""
        return self.scorer.prepare(self.history_rows(level, history))

    def states(self, history: Tensor) -> Callable[[int], State]:
        """`state` by level, with what the levels share done once."""
        if self.scorer.config.history == "item":
            state = self.state(history, 0)
            return lambda level: state
        leaves = self.tree.leaves(history)
        return lambda level: self.scorer.prepare(self._ancestor_rows(level, leaves))

    def settings(self) -> dict[str, Any]:
        """The plain values of tree and scorer, as they stand in an artifact."""
        return {
            "leaf_vectors": self.leaf_vectors,
            "first": self.first,
            "tree": self.tree.settings(),
            "scorer": self.scorer.settings(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of tree and scorer, as they stand in an artifact."""
        return _named("tree.", self.tree.tensors()) | _named("scorer.", self.scorer.state_dict())

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The index back from its settings and tensors, after checking all of it; the scorer in eval mode."""
        for key, kind in (("leaf_vectors", str), ("first", int), ("tree", Mapping), ("scorer", Mapping)):
            if not isinstance(settings.get(key), kind):
                raise ArtifactError(f"tree index: its settings lack {key!r}; make the artifact again")
        tree = Tree.build(settings["tree"], _under("tree.", tensors))
        try:
            scorer = load_scorer(settings["scorer"], _under("scorer.", tensors))
            return cls(tree, scorer, settings["leaf_vectors"], settings["first"])
        except ConfigError as error:
            raise ArtifactError(f"tree index: {error}") from error

    def _ancestor_rows(self, level: int, leaves: Tensor) -> Tensor:
        # -1 // width is -1: masked afterwards, since `rows` gives any row for it.
        nodes = self.tree.shape.ancestor(leaves, level)
        return self.rows(level, nodes).masked_fill(leaves < 0, -1)


def n_rows(shape: TreeShape, n_items: int, leaf_vectors: str) -> int:
    """Rows of the node table a tree needs."""
    if leaf_vectors not in KINDS:
        raise ConfigError(f"leaf_vectors must be one of {', '.join(KINDS)}, got {leaf_vectors!r}")
    return shape.n_nodes if leaf_vectors == "slot" else shape.offsets[-1] + n_items


def _named(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {start + name: tensor for name, tensor in tensors.items()}


def _under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
