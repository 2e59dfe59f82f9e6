"""A tree whose leaves hold several items, and in which an item may stand in several leaves."""

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
    """Nodes are numbered level by level, the root is 0, the children of a node follow one another.

    A node without children is a leaf. Leaves may lie at different depths, hold between none and `leaf` items each,
    and share items.
    """

    children: Tensor  # int32 [nodes + 1]: node n has the children children[n] .. children[n + 1] - 1
    offsets: Tensor  # int32 [nodes + 1]: node n holds the items rows[offsets[n] : offsets[n + 1]]
    rows: Tensor  # int32 [entries], rising within a leaf
    n_items: int  # rows of the catalogue
    leaf: int  # the most items of a leaf

    @property
    def n_nodes(self) -> int:
        return len(self.children) - 1

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @cached_property
    def sizes(self) -> Tensor:
        """How many items each node holds itself, int64 [nodes]."""
        return self.offsets.diff().long()

    @cached_property
    def leaves(self) -> Tensor:
        """The nodes without children, rising, int64 [leaves]."""
        return (self.children.diff() == 0).nonzero()[:, 0]

    @cached_property
    def widest(self) -> int:
        """The most items that a leaf holds now."""
        return int(self.sizes.max())

    @cached_property
    def parents(self) -> Tensor:
        """The node above each, int64 [nodes]; the root is its own."""
        nodes = torch.arange(self.n_nodes, device=self.device)
        counts = self.children.diff().long()
        return torch.cat([nodes[:1], nodes.repeat_interleave(counts)])

    @cached_property
    def height(self) -> int:
        """The depth of the deepest leaf; 0 for a tree that is one leaf."""
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
        """True for the nodes with an item in or below them, bool [nodes]."""
        holding = self.paths[self.sizes > 0].flatten()
        return torch.zeros(self.n_nodes, dtype=torch.bool, device=self.device).index_fill(0, holding, True)

    @cached_property
    def onward(self) -> Tensor:
        """Where a search goes on from every node: its live children, a live leaf stays; int64 [nodes + 1, branch].

        -1 for no node; the last row is that of no node.
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
        """The live nodes of a depth and the live leaves above it: what a search chooses from there; rising, int64."""
        met = self.paths[self.leaves, min(depth, self.height)]
        return (torch.zeros_like(self.live).index_fill(0, met, True) & self.live).nonzero()[:, 0]

    @cached_property
    def homes(self) -> Tensor:
        """The leaves that hold each item, rising, int64 [n_items, most copies], -1 = no more."""
        holder = torch.arange(self.n_nodes, device=self.device).repeat_interleave(self.sizes)  # [entries]
        order = self.rows.long().argsort(stable=True)
        owner, holder = self.rows.long()[order], holder[order]
        counts = torch.bincount(owner, minlength=self.n_items)
        nth = torch.arange(len(owner), device=self.device) - (counts.cumsum(0) - counts)[owner]
        most = max(int(counts.max()), 1) if len(counts) else 1
        table = torch.full((self.n_items, most), -1, device=self.device)
        return table.index_put((owner, nth), holder)

    def filled(self, items: Tensor, leaves: Tensor) -> "LeafTree":
        """The same nodes with other contents: pairs of an item and a leaf, in any order, none twice."""
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
        """The plain values of the tree, as they stand in an artifact."""
        return {"n_items": self.n_items, "leaf": self.leaf}

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the tree, as they stand in an artifact."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The tree back from its settings and tensors, after checking all of it."""
        for name in ARRAYS:
            one = tensors.get(name)
            if one is None or one.dtype != torch.int32 or one.dim() != 1:
                raise ArtifactError(f"jtr: expected {name!r} as int32 in a row; make the artifact again")
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
    """Refuse arrays that are no tree, and contents that no search could find or would find wrong."""
    children, offsets, rows = tree.children.long(), tree.offsets.long(), tree.rows.long()
    nodes = tree.n_nodes
    _demand(nodes >= 1 and len(offsets) == nodes + 1, "as many offsets as nodes, from one on")
    steps = children.diff()
    _demand(int(children[0]) == 1 and int(children[-1]) == nodes, "children that are all nodes but the root")
    _demand(bool((steps >= 0).all()), "children in rising order")
    # A parent comes before its children, so that every way up ends at the root.
    inner = steps > 0
    _demand(
        bool((children[:-1] > torch.arange(nodes, device=tree.device))[inner].all()), "children below parents"
    )
    counts = offsets.diff()
    _demand(int(offsets[0]) == 0 and int(offsets[-1]) == len(rows), "offsets from 0 to the number of entries")
    _demand(bool((counts >= 0).all()) and not bool((counts[inner] > 0).any()), "items in leaves only")
    _demand(int(counts.max()) <= tree.leaf, f"at most {tree.leaf} items in a leaf")
    _demand(len(rows) == 0 or 0 <= int(rows.min()) <= int(rows.max()) < tree.n_items, "rows of the catalogue")
    holder = torch.arange(nodes, device=tree.device).repeat_interleave(counts)
    _demand(bool(((holder.diff() > 0) | (rows.diff() > 0)).all()), "every item of a leaf once, rising")
    _demand(bool((torch.bincount(rows, minlength=tree.n_items) > 0).all()), "every item in at least one leaf")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise DataError(f"jtr: expected {what}, got another tree")
