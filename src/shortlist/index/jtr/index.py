"""A tree of leaves with a vector for each node, searched by inner product."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.errors import ArtifactError, ConfigError
from shortlist.index.jtr.tree import LeafTree


@dataclass(frozen=True, eq=False)
class JTRIndex:
    """A query scores a node by the inner product with its vector; items keep their own vectors."""

    tree: LeafTree
    nodes: Tensor  # float32 [nodes, D]

    def __post_init__(self) -> None:
        if self.nodes.dim() != 2 or len(self.nodes) != self.tree.n_nodes:
            raise ConfigError(
                f"jtr: expected a vector for each of {self.tree.n_nodes} nodes, got {list(self.nodes.shape)}"
            )

    def to(self, device: torch.device | str) -> "JTRIndex":
        """The same index on another device."""
        return JTRIndex(self.tree.to(device), self.nodes.to(device))

    def settings(self) -> dict[str, Any]:
        """The plain values of the index, as stored in an artifact."""
        return self.tree.settings()

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the index, as stored in an artifact."""
        return {**self.tree.tensors(), "nodes": self.nodes.detach()}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The index from its settings and tensors, after validation."""
        nodes = tensors.get("nodes")
        if nodes is None or not nodes.is_floating_point() or not bool(nodes.isfinite().all()):
            raise ArtifactError("jtr: expected 'nodes' to be finite vectors; make the artifact again")
        try:
            return cls(LeafTree.build(settings, tensors), nodes)
        except ConfigError as error:
            raise ArtifactError(f"{error}; make the artifact again") from error
