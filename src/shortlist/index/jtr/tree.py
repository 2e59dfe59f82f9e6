"""A tree whose leaves hold several items; an item may be in several leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.errors import ArtifactError, DataError

ARRAYS = ("children", "offsets", "rows")


@dataclass(frozen=True, eq=False)
class LeafTree:
    """Nodes are numbered in level order, the root is 0, the children of a node are consecutive.

    A node without children is a leaf. Leaves may have different depths, hold up to `leaf` items each and share items.
    """

    children: Tensor  # int32 [nodes + 1]: node n has the children children[n] .. children[n + 1] - 1
    offsets: Tensor  # int32 [nodes + 1]: node n holds the items rows[offsets[n] : offsets[n + 1]]
    rows: Tensor  # int32 [entries], ascending within a leaf
    n_items: int  # size of the catalogue
    leaf: int  # capacity of a leaf

    @property
    def n_nodes(self) -> int:
        return len(self.children) - 1

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @cached_property
    def sizes(self) -> Tensor:
        """Items held by each node itself, int64 [nodes]."""
        return self.offsets.diff().long()

    @cached_property
    def leaves(self) -> Tensor:
        """The nodes without children, ascending, int64 [leaves]."""
        return (self.children.diff() == 0).nonzero()[:, 0]

    @cached_property
    def widest(self) -> int:
        """The most items that a leaf currently holds."""
        return int(self.sizes.max())

    @cached_property
    def parents(self) -> Tensor:
        """The parent of each node, int64 [nodes]; the root is its own."""
        nodes = torch.arange(self.n_nodes, device=self.device)
        counts = self.children.diff().long()
        return torch.cat([nodes[:1], nodes.repeat_interleave(counts)])

    @cached_property
    def height(self) -> int:
        """The depth of the deepest leaf; 0 for a tree of one leaf."""
        return self.paths.shape[1] - 1

    @cached_property
    def paths(self) -> Tensor:
        """The ancestor of every node at each depth, itself from its own depth on, int64 [nodes, height + 1]."""
        upward = [torch.arange(self.n_nodes, device=self.device)]
        while bool((upward[-1] > 0).any()):
            upward.append(self.parents[upward[-1]])
        table = torch.stack(
            upward[::-1], dim=1
        )  # [nodes, height + 1], the root repeated before shallow nodes
        spare = (table == 0).sum(1, keepdim=True) - 1
        steps = torch.arange(table.shape[1], device=self.device)
        return table.gather(1, (steps + spare).clamp(max=table.shape[1] - 1))

    @cached_property
    def live(self) -> Tensor:
        """Whether a node has an item in or below it, bool [nodes]."""
        holding = self.paths[self.sizes > 0].flatten()
        return torch.zeros(self.n_nodes, dtype=torch.bool, device=self.device).index_fill(0, holding, True)

    @cached_property
    def onward(self) -> Tensor:
        """The nodes a search visits next: the live children of a node, a live leaf itself; int64 [nodes + 1, branch].

        -1 = no node; the last row belongs to "no node".
        """
        counts = self.children.diff().long()
        steps = torch.arange(max(int(counts.max()), 1), device=self.device)
        first = torch.where(
            counts > 0, self.children[:-1].long(), torch.arange(self.n_nodes, device=self.device)
        )
        there = steps < counts.clamp(min=1)[:, None]  # [nodes, branch]
        nodes = torch.where(there, first[:, None] + steps, 0)
        nodes = torch.where(there & self.live[nodes], nodes, -1)
        return torch.nn.functional.pad(nodes, (0, 0, 0, 1), value=-1)

    def front(self, depth: int) -> Tensor:
        """The live nodes of a depth and the live leaves above it, the candidates of a beam there; ascending, int64."""
        nodes = self.paths[self.leaves, min(depth, self.height)]
        return (torch.zeros_like(self.live).index_fill(0, nodes, True) & self.live).nonzero()[:, 0]

    @cached_property
    def homes(self) -> Tensor:
        """The leaves that hold each item, ascending, int64 [n_items, most copies], -1 = none."""
        holder = torch.arange(self.n_nodes, device=self.device).repeat_interleave(self.sizes)  # [entries]
        order = self.rows.long().argsort(stable=True)
        owner, holder = self.rows.long()[order], holder[order]
        counts = torch.bincount(owner, minlength=self.n_items)
        nth = torch.arange(len(owner), device=self.device) - (counts.cumsum(0) - counts)[owner]
        most = max(int(counts.max()), 1) if len(counts) else 1
        table = torch.full((self.n_items, most), -1, device=self.device)
        return table.index_put((owner, nth), holder)

    def filled(self, items: Tensor, leaves: Tensor) -> "LeafTree":
        """The same nodes with other contents: distinct (item, leaf) pairs in any order."""
        order = (leaves * max(self.n_items, 1) + items).argsort()
        counts = torch.bincount(leaves, minlength=self.n_nodes)
        offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32)
        made = replace(self, offsets=offsets, rows=items[order].to(torch.int32))
        _check(made)
        return made

    def to(self, device: torch.device | str) -> "LeafTree":
        """The same tree on another device."""
        moved = {name: getattr(self, name).to(device) for name in ARRAYS}
        return replace(self, **moved)

    def settings(self) -> dict[str, Any]:
        """The plain values of the tree, as stored in an artifact."""
        return {"n_items": self.n_items, "leaf": self.leaf}

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the tree, as stored in an artifact."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The tree from its settings and tensors, after validation."""
        for name in ARRAYS:
            tensor = tensors.get(name)
            if tensor is None or tensor.dtype != torch.int32 or tensor.dim() != 1:
                raise ArtifactError(
                    f"jtr: expected {name!r} to be a 1-d int32 tensor; make the artifact again"
                )
        for name in ("n_items", "leaf"):
            value = settings.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ArtifactError(
                    f"jtr: {name} must be a whole number, got {value!r}; make the artifact again"
                )
        made = cls(
            **{name: tensors[name] for name in ARRAYS}, n_items=settings["n_items"], leaf=settings["leaf"]
        )
        try:
            _check(made)
        except DataError as error:
            raise ArtifactError(f"{error}; make the artifact again") from error
        return made


def _check(tree: LeafTree) -> None:
    """Refuse arrays that are not a tree, and contents that a search would miss or repeat."""
    children, offsets, rows = tree.children.long(), tree.offsets.long(), tree.rows.long()
    nodes = tree.n_nodes
    _require(nodes >= 1 and len(offsets) == nodes + 1, "one offset per node and one more")
    steps = children.diff()
    _require(int(children[0]) == 1 and int(children[-1]) == nodes, "every node but the root to be a child")
    _require(bool((steps >= 0).all()), "children in ascending order")
    # A parent comes before its children, so every path upwards ends at the root.
    inner = steps > 0
    _require(
        bool((children[:-1] > torch.arange(nodes, device=tree.device))[inner].all()),
        "parents before children",
    )
    counts = offsets.diff()
    _require(
        int(offsets[0]) == 0 and int(offsets[-1]) == len(rows), "offsets from 0 to the number of entries"
    )
    _require(bool((counts >= 0).all()) and not bool((counts[inner] > 0).any()), "items in leaves only")
    _require(int(counts.max()) <= tree.leaf, f"at most {tree.leaf} items in a leaf")
    _require(
        len(rows) == 0 or 0 <= int(rows.min()) <= int(rows.max()) < tree.n_items, "rows of the catalogue"
    )
    _require(tree.n_items <= len(rows), "every item in at least one leaf")  # before memory for every item
    holder = torch.arange(nodes, device=tree.device).repeat_interleave(counts)
    _require(bool(((holder.diff() > 0) | (rows.diff() > 0)).all()), "every item of a leaf once, ascending")
    _require(
        bool((torch.bincount(rows, minlength=tree.n_items) > 0).all()), "every item in at least one leaf"
    )


def _require(holds: bool, expected: str) -> None:
    if not holds:
        raise DataError(f"jtr: not a valid tree: expected {expected}")
