"""The assignment of items to leaves."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.index.tree.shape import TreeShape

SETTING_TYPES = {"slots": int, "branch": int, "n_items": int, "version": int, "checksum": str}


@dataclass(frozen=True, eq=False)
class Tree:
    """Items at the leaves of a shape; a leaf without an item is a free slot, an item without a leaf is absent."""

    shape: TreeShape
    item_of_leaf: Tensor  # int32 [slots], -1 = free
    n_items: int  # size of the catalogue
    version: int = 0  # number of reassignments

    @cached_property
    def leaf_of_item(self) -> Tensor:
        """The leaf of every item, int32 [n_items], -1 = absent."""
        taken = self.item_of_leaf >= 0
        # Free slots write to one extra place, which is then cut off: no host synchronisation.
        places = torch.where(taken, self.item_of_leaf, self.n_items).long()
        leaves = torch.full((self.n_items + 1,), -1, dtype=torch.int32, device=self.device)
        slots = torch.arange(self.shape.n, dtype=torch.int32, device=self.device)
        return leaves.scatter(0, places, slots)[: self.n_items]

    @cached_property
    def n_live(self) -> int:
        """Number of items with a leaf."""
        return int((self.item_of_leaf >= 0).sum())

    @property
    def device(self) -> torch.device:
        return self.item_of_leaf.device

    def live(self, level: int) -> Tensor:
        """Whether a node has an item below, bool [nodes of the level]."""
        return self.reach[level][:-1]

    @cached_property
    def reach(self) -> tuple[Tensor, ...]:
        """`live` of every level, with a False appended for padding nodes."""
        return upwards(self.shape, self.item_of_leaf >= 0)

    @cached_property
    def all_reach(self) -> Tensor:
        """`live` of all levels concatenated, root first, bool [n_nodes]."""
        return concatenated(self.reach)

    def allow(self, allowed: Tensor | None) -> tuple[Tensor, ...]:
        """`reach` when only the items marked in `allowed` [n_items] count."""
        if allowed is None:
            return self.reach
        if allowed.shape != (self.n_items,) or allowed.dtype != torch.bool:
            raise DataError(
                f"allowed: expected a bool for each of {self.n_items} items, got {_type_and_shape(allowed)}"
            )
        marked = allowed[self.item_of_leaf.clamp(min=0).long()]
        return upwards(self.shape, marked & (self.item_of_leaf >= 0))

    def leaves(self, items: Tensor) -> Tensor:
        """Leaves of items of any shape, int64; -1 for padding, unknown and absent items."""
        known = (items >= 0) & (items < self.n_items)
        return self.leaf_of_item[torch.where(known, items, 0).long()].long().masked_fill_(~known, -1)

    def reassigned(self, order: Tensor) -> "Tree":
        """The same items at other leaves: a whole `item_of_leaf`, or items in order for the occupied slots."""
        order = order.to(self.device, torch.int32)
        if len(order) != self.shape.n:
            slots = (self.item_of_leaf >= 0).nonzero()[:, 0]
            _check(
                len(order) == len(slots),
                f"{len(slots)} items or {self.shape.n} slots",
                _type_and_shape(order),
            )
            order = torch.full_like(self.item_of_leaf, -1).index_put((slots,), order)
        same = torch.equal(order.sort().values, self.item_of_leaf.sort().values)
        _check(same, "the items of the tree, each once", "others or repeated ones")
        return Tree(self.shape, order, self.n_items, self.version + 1)

    def to(self, device: torch.device | str) -> "Tree":
        """The same tree on another device."""
        return Tree(self.shape, self.item_of_leaf.to(device), self.n_items, self.version)

    def checksum(self) -> str:
        """A short hash of this assignment."""
        facts = f"{self.shape.n} {self.shape.branch} {self.n_items} {self.version} ".encode()
        leaves = self.item_of_leaf.cpu().to(torch.int32).numpy().astype("<i4").tobytes()
        return hashlib.sha256(facts + leaves).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """The plain values of the tree, as stored in an artifact."""
        return {
            "slots": self.shape.n,
            "branch": self.shape.branch,
            "n_items": self.n_items,
            "version": self.version,
            "checksum": self.checksum(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the tree, as stored in an artifact."""
        return {"item_of_leaf": self.item_of_leaf}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The tree from its settings and tensors, after validation."""
        _check_settings(settings)
        shape = _shape(settings)
        leaves = _checked_leaves(settings, tensors)
        tree = cls(shape, leaves, settings["n_items"], settings["version"])
        if tree.checksum() != settings["checksum"]:
            raise ArtifactError(
                f"tree: expected checksum {settings['checksum']}, the tensors give {tree.checksum()}; "
                "they belong to different trees or are damaged"
            )
        return tree


def grow(order: Tensor, n_items: int, branch: int = 2, spare: float = 0.0) -> Tree:
    """A tree over items in leaf order, with a share of free slots spread evenly for later insertions."""
    if not 0 <= spare <= 100:
        raise ConfigError(f"spare must be a share of the items between 0 and 100, got {spare!r}")
    _check_order(order, n_items)
    n = len(order)
    slots = n + ceil(n * spare)
    leaves = torch.full((slots,), -1, dtype=torch.int32, device=order.device)
    places = torch.arange(n, device=order.device) * slots // n  # strictly increasing: slots >= n
    return Tree(TreeShape(slots, branch), leaves.scatter(0, places, order.to(torch.int32)), n_items)


def upwards(shape: TreeShape, marked: Tensor) -> tuple[Tensor, ...]:
    """For every level the nodes above a marked leaf [nodes + 1], root first; the last place is always False."""
    levels = [_with_end(marked)]
    for size in reversed(shape.sizes[:-1]):
        missing = size * shape.branch - len(marked)
        padded = torch.nn.functional.pad(marked, (0, missing))
        marked = padded.view(size, shape.branch).any(1)  # [nodes of the level]
        levels.append(_with_end(marked))
    return tuple(reversed(levels))


def concatenated(levels: tuple[Tensor, ...]) -> Tensor:
    """The result of `upwards` as one tensor, without the extra places [n_nodes]."""
    return torch.cat([level[:-1] for level in levels])


def _with_end(marked: Tensor) -> Tensor:
    return torch.nn.functional.pad(marked, (0, 1))


def _check_order(order: Tensor, n_items: int) -> None:
    whole = order.dtype in (torch.int32, torch.int64)
    _check(
        order.dim() == 1 and whole and len(order) > 0,
        "a non-empty 1-d tensor of integers",
        _type_and_shape(order),
    )
    low, high = int(order.min()), int(order.max())
    _check(low >= 0 and high < n_items, f"items of 0 .. {n_items - 1}", f"{low} .. {high}")
    twice = int(torch.bincount(order, minlength=n_items).max())
    _check(twice == 1, "every item once", f"an item {twice} times")


def _check(valid: bool, expected: str, got: str) -> None:
    if not valid:
        raise DataError(f"order of a tree: expected {expected}, got {got}")


def _check_settings(settings: Mapping[str, Any]) -> None:
    for key, kind in SETTING_TYPES.items():
        if key not in settings:
            raise ArtifactError(f"tree: its settings lack {key!r}; make the artifact again")
        if not isinstance(settings[key], kind) or isinstance(settings[key], bool):
            raise ArtifactError(f"tree: {key} must be {kind.__name__}, got {settings[key]!r}")
    if settings["n_items"] < 0 or settings["version"] < 0:
        raise ArtifactError(f"tree: n_items and version cannot be negative, got {dict(settings)!r}")


def _shape(settings: Mapping[str, Any]) -> TreeShape:
    try:
        return TreeShape(settings["slots"], settings["branch"])
    except ConfigError as error:
        raise ArtifactError(f"tree: {error}") from error


def _checked_leaves(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Tensor:
    if "item_of_leaf" not in tensors:
        raise ArtifactError(f"tree: expected a tensor 'item_of_leaf', got {sorted(tensors) or 'none'}")
    leaves, n_items = tensors["item_of_leaf"], settings["n_items"]
    if leaves.dtype != torch.int32 or leaves.shape != (settings["slots"],):
        raise ArtifactError(
            f"tree: item_of_leaf must be int32 of length {settings['slots']}, got {_type_and_shape(leaves)}"
        )
    low, high = int(leaves.min()), int(leaves.max())
    if low < -1 or high >= n_items:
        raise ArtifactError(
            f"tree: item_of_leaf must be -1 (free) or an item below {n_items}, got {low} .. {high}"
        )
    twice = int(torch.bincount(leaves + 1, minlength=2)[1:].max())
    if twice > 1:
        raise ArtifactError(f"tree: item_of_leaf holds an item {twice} times; every item must have one leaf")
    return leaves


def _type_and_shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
