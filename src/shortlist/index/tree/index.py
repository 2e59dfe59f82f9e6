"""A tree with a scorer of its nodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.errors import ArtifactError, ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree
from shortlist.models.nodes import NodeScorer, State, load_scorer

LEAF_VECTORS = ("slot", "item")


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """Maps nodes to rows of the scorer's node table.

    With `leaf_vectors="slot"` a leaf keeps its vector when its item moves, with "item" the vector moves along. Levels
    above `first` are untrained: no search scores them, however narrow its beam.
    """

    tree: Tree
    scorer: NodeScorer
    leaf_vectors: str = "slot"
    first: int = 1

    def __post_init__(self) -> None:
        height = self.tree.shape.height
        if not 1 <= self.first <= max(height, 1):
            raise ConfigError(f"the first trained level must lie between 1 and {height}, got {self.first}")
        needed = n_rows(self.tree.shape, self.tree.n_items, self.leaf_vectors)
        config = self.scorer.config
        if config.n_rows != needed:
            raise ConfigError(f"the tree needs a node table of {needed} rows, the scorer has {config.n_rows}")
        if config.history == "item" and config.n_items < self.tree.n_items:
            raise ConfigError(
                f"the tree has {self.tree.n_items} items, the item table of the scorer has {config.n_items} rows; "
                "it needs one row per item"
            )

    def to(self, device: torch.device | str) -> "TreeIndex":
        """The same index on another device."""
        return TreeIndex(self.tree.to(device), self.scorer.to(device), self.leaf_vectors, self.first)

    def start(self, beam: int) -> int:
        """The first level a search scores: the first trained one with more nodes than the beam."""
        return min(max(self.tree.shape.start(beam), self.first), self.tree.shape.height)

    def rows(self, level: int, index: Tensor) -> Tensor:
        """Rows of nodes of one level, int64; nodes past the end and free slots get the row of another node."""
        shape = self.tree.shape
        near = index.clamp(max=shape.sizes[level] - 1)
        if level == shape.height and self.leaf_vectors == "item":
            return self.leaf_rows[near]
        return near + shape.offsets[level]

    def level_rows(self, level: int) -> Tensor:
        """Rows of all nodes of a level, in order [nodes]."""
        shape = self.tree.shape
        if level == shape.height and self.leaf_vectors == "item":
            return self.leaf_rows
        first = shape.offsets[level]
        return torch.arange(first, first + shape.sizes[level], device=self.tree.device)

    @cached_property
    def leaf_rows(self) -> Tensor:
        """Rows of leaves when vectors belong to items, int64 [slots]."""
        return self.tree.shape.offsets[-1] + self.tree.item_of_leaf.clamp(min=0).long()

    def history_rows(self, level: int, history: Tensor) -> Tensor:
        """Rows that represent the items of histories [U, K] while nodes of `level` are scored, -1 = padding.

        Ancestors: the node of the level above each item, padding for an item without a leaf. Items: the items
        themselves, also those without a leaf, since their vectors remain.
        """
        if self.scorer.config.history == "item":
            known = (history >= 0) & (history < self.scorer.config.n_items)
            return torch.where(known, history, -1)
        return self._ancestor_rows(level, self.tree.leaves(history))

    def state(self, history: Tensor, level: int) -> State:
        """The scorer's state of histories [U, K] for scoring nodes of `level`."""
        return self.scorer.prepare(self.history_rows(level, history))

    def states(self, history: Tensor) -> Callable[[int], State]:
        """`state` by level, with the work that levels share done once."""
        if self.scorer.config.history == "item":
            state = self.state(history, 0)
            return lambda level: state
        leaves = self.tree.leaves(history)
        return lambda level: self.scorer.prepare(self._ancestor_rows(level, leaves))

    def settings(self) -> dict[str, Any]:
        """The plain values of tree and scorer, as stored in an artifact."""
        return {
            "leaf_vectors": self.leaf_vectors,
            "first": self.first,
            "tree": self.tree.settings(),
            "scorer": self.scorer.settings(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of tree and scorer, as stored in an artifact."""
        return with_prefix("tree.", self.tree.tensors()) | with_prefix("scorer.", self.scorer.state_dict())

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The index from its settings and tensors, after validation; the scorer is in eval mode."""
        for key, kind in (("leaf_vectors", str), ("first", int), ("tree", Mapping), ("scorer", Mapping)):
            if not isinstance(settings.get(key), kind):
                raise ArtifactError(f"tree index: its settings lack {key!r}; make the artifact again")
        tree = Tree.build(settings["tree"], without_prefix("tree.", tensors))
        try:
            scorer = load_scorer(settings["scorer"], without_prefix("scorer.", tensors))
            return cls(tree, scorer, settings["leaf_vectors"], settings["first"])
        except ConfigError as error:
            raise ArtifactError(f"tree index: {error}") from error

    def _ancestor_rows(self, level: int, leaves: Tensor) -> Tensor:
        # -1 // width is -1, and `rows` maps it to some row: masked afterwards.
        nodes = self.tree.shape.ancestor(leaves, level)
        return self.rows(level, nodes).masked_fill(leaves < 0, -1)


def n_rows(shape: TreeShape, n_items: int, leaf_vectors: str) -> int:
    """Rows of the node table that a tree needs."""
    if leaf_vectors not in LEAF_VECTORS:
        raise ConfigError(f"leaf_vectors must be one of {', '.join(LEAF_VECTORS)}, got {leaf_vectors!r}")
    return shape.n_nodes if leaf_vectors == "slot" else shape.offsets[-1] + n_items
