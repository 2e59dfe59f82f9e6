"""Items that come and go: into free slots, out of them, and the tree balanced anew."""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from shortlist.errors import DataError
from shortlist.index.tree.index import TreeIndex
from shortlist.index.tree.tree import Tree, grow
from shortlist.models.nodes import NodeScorer

MOST = 2**31 - 1  # leaves hold items as int32


def insert(index: TreeIndex, items: Tensor, near: Tensor | None = None, spare: float = 0.1) -> TreeIndex:
    """New items [m] in free slots close to the items `near` [m]; -1 for one that may stand anywhere.

    An item past the end of the catalogue makes it longer. Where slots run out, the tree is balanced anew with each
    item behind the one it is near to, and `spare` slots. A new leaf's vector is the mean of its siblings', else that
    of the item it is near to, else its parent's.
    """
    items, near = _checked(index.tree, items, near)
    if not len(items):
        return index
    tree, n_items = index.tree, max(index.tree.n_items, int(items.max()) + 1)
    free = (tree.item_of_leaf < 0).nonzero()[:, 0]
    if len(items) > len(free):
        order = _merged(tree, items, near)
        grown = replace(grow(order, n_items, tree.shape.branch, spare), version=tree.version + 1)
        return _Move(index, grown, items, near, afresh=True).done()
    slots = free[_nearest_free(free, _wanted(tree, near))]
    leaves = tree.item_of_leaf.index_put((slots,), items.int())
    return _Move(index, Tree(tree.shape, leaves, n_items, tree.version + 1), items, near).done()


def delete(index: TreeIndex, items: Tensor) -> TreeIndex:
    """The index without some items [m]: their slots are free, the scorer is the same."""
    tree, items = index.tree, _whole_numbers("items", items).to(index.tree.device)
    leaves = tree.leaves(items)
    if bool((leaves < 0).any()):
        raise DataError(f"cannot delete item {int(items[leaves < 0][0])}: it is not in the tree")
    if len(torch.unique(leaves)) < len(leaves):
        raise DataError("cannot delete an item twice; name every item once")
    free = tree.item_of_leaf.index_fill(0, leaves, -1)
    return replace(index, tree=Tree(tree.shape, free, tree.n_items, tree.version + 1))


def rebalance(index: TreeIndex, spare: float = 0.1) -> TreeIndex:
    """The same items in the same order with free slots spread evenly; a tree without items stays as it is.

    A leaf's vector follows its item; an inner node gets the mean, over the items below it, of the vectors of the nodes
    that were above them, levels counted from the leaves.
    """
    tree = index.tree
    order = tree.item_of_leaf[tree.item_of_leaf >= 0]
    if not len(order):
        return index
    grown = replace(grow(order, tree.n_items, tree.shape.branch, spare), version=tree.version + 1)
    none = order.new_empty(0).long()
    return _Move(index, grown, none, none, afresh=True).done()


@dataclass(frozen=True, eq=False)
class _Move:
    """From an index to another tree: who of the new items is near to whom, and what vectors follow from it."""

    old: TreeIndex
    tree: Tree
    items: Tensor  # new items [m]
    near: Tensor  # old items, -1 for none [m]
    afresh: bool = False  # nodes have other items below them than before

    @torch.no_grad()
    def done(self) -> TreeIndex:
        nodes = torch.cat([self._inner, self._leaves()])
        items = None if self.old.scorer.items is None else self._item_table(self.old.scorer.items.weight)
        height, before = self.tree.shape.height, self.old.tree.shape.height
        first = min(
            max(self.old.first + height - before, 1), max(height, 1)
        )  # as far from the leaves as it was
        return TreeIndex(self.tree, with_tables(self.old.scorer, nodes, items), self.old.leaf_vectors, first)

    @property
    def _table(self) -> Tensor:
        return self.old.scorer.nodes.weight

    @cached_property
    def _inner(self) -> Tensor:
        """Vectors of all nodes above the leaves, level by level [nodes, D]."""
        shape = self.tree.shape
        if not self.afresh:
            return self._table[: shape.offsets[-1]]
        levels = [self._table[:1]]  # should no item tell anything, everything is like the old root
        for level in range(shape.height):
            levels.append(self._inner_level(level, levels[-1]))
        return torch.cat([self._table[:0], *levels[1:]])

    def _inner_level(self, level: int, above: Tensor) -> Tensor:
        """Means of old ancestors' vectors [nodes, D]; where no item tells, the vector of the parent."""
        shape, before = self.tree.shape, self.old.tree.shape
        same = max(0, before.height - (shape.height - level))  # the old level as far from the leaves
        new, old = self._ways
        rows = self.old.rows(same, before.ancestor(old, same))
        nodes, size = shape.ancestor(new, level), shape.sizes[level]
        sums = self._table.new_zeros((size, self._table.shape[1]), dtype=torch.float64)
        sums.index_add_(0, nodes, self._table[rows].double())
        counts = torch.bincount(nodes, minlength=size)[:, None]
        parents = above[torch.arange(size, device=nodes.device) // (shape.branch if level else 1)]
        return torch.where(counts > 0, (sums / counts.clamp(min=1)).to(parents.dtype), parents)

    @cached_property
    def _ways(self) -> tuple[Tensor, Tensor]:
        """New leaf and old leaf of every item that tells something; a new item tells what its near one does."""
        leaves = (self.tree.item_of_leaf >= 0).nonzero()[:, 0]
        items = self.tree.item_of_leaf[leaves].long()
        witness = torch.arange(self.tree.n_items, device=items.device).index_put((self.items,), self.near)
        old = self.old.tree.leaves(witness[items])
        return leaves[old >= 0], old[old >= 0]

    def _leaves(self) -> Tensor:
        """Vectors of the leaves, of slots or of items [rows, D]."""
        height, tree = self.old.tree.shape.height, self.old.tree
        rows = self.old.level_rows(height)
        if self.old.leaf_vectors == "item":
            own = _longer(self._table[tree.shape.offsets[-1] :], self.tree.n_items)
        else:
            own = self._table.new_zeros((self.tree.n_items, self._table.shape[1]))
            taken = tree.item_of_leaf >= 0
            own[tree.item_of_leaf[taken].long()] = self._table[rows[taken]]
        own = own.index_put((self.items,), self._fresh(own, self._parents()))
        if self.old.leaf_vectors == "item":
            return own
        slots = self.tree.item_of_leaf.long()
        idle = own.new_zeros(1) if self.afresh else self._table[rows]
        return torch.where(slots[:, None] >= 0, own[slots.clamp(min=0)], idle)

    def _parents(self) -> Tensor:
        """The vectors of the nodes above the new items' leaves [m, D]; of the old root where leaf and root are one."""
        shape = self.tree.shape
        if shape.height == 0:
            return self._table[:1].expand(len(self.items), -1)
        parents = shape.parent(self.tree.leaves(self.items))
        return self._inner[shape.offsets[-2] + parents]

    def _item_table(self, table: Tensor) -> Tensor:
        """Vectors of items in histories [n_items, D]: what they were, and fresh ones for a longer catalogue."""
        longer = _longer(table, self.tree.n_items)
        exclude_seen = self._fresh(longer, longer[self.items])
        known = (self.items < len(table))[:, None]
        return longer.index_put((self.items,), torch.where(known, longer[self.items], exclude_seen))

    def _fresh(self, own: Tensor, otherwise: Tensor) -> Tensor:
        """Vectors for new items [m, D] from those of all items: siblings' mean, else the near item's, else others."""
        shape = self.tree.shape
        first = shape.parent(self.tree.leaves(self.items)) * shape.branch
        slots = first[:, None] + torch.arange(shape.branch, device=first.device)  # [m, B]
        siblings = self.tree.item_of_leaf[slots.clamp(max=shape.n - 1)].long()
        there = (slots < shape.n) & (self.old.tree.leaves(siblings) >= 0)
        sums = (own[siblings.clamp(min=0)] * there[:, :, None]).sum(1)
        count = there.sum(1, keepdim=True)
        near = torch.where(self.near[:, None] >= 0, own[self.near.clamp(min=0)], otherwise)
        return torch.where(count > 0, sums / count.clamp(min=1), near)


def with_tables(scorer: NodeScorer, nodes: Tensor, items: Tensor | None) -> NodeScorer:
    """A scorer of its own with other vectors for nodes and items, and copies of all other weights."""
    kept: dict[int, object] = {id(scorer.nodes): _embedding(nodes, scorer.nodes)}
    if scorer.items is not None and items is not None:
        kept[id(scorer.items)] = _embedding(items, scorer.items)
    n_items = scorer.config.n_items if items is None else len(items)
    exclude_seen = deepcopy(scorer, kept)
    exclude_seen.config = replace(scorer.config, n_rows=len(nodes), n_items=n_items)
    return exclude_seen


def _embedding(vectors: Tensor, like: nn.Embedding) -> nn.Embedding:
    weight = vectors.detach().clone()
    made = nn.Embedding(len(weight), weight.shape[1], _weight=weight)
    return made.requires_grad_(like.weight.requires_grad).train(like.training)


def _longer(table: Tensor, n: int) -> Tensor:
    return torch.nn.functional.pad(table, (0, 0, 0, max(0, n - len(table))))


def _wanted(tree: Tree, near: Tensor) -> Tensor:
    """The leaves where new items would like to be [m]; those that may stand anywhere are spread."""
    anywhere = torch.arange(len(near), device=near.device) * tree.shape.n // len(near)
    return torch.where(near >= 0, tree.leaves(near), anywhere)


def _nearest_free(free: Tensor, wanted: Tensor) -> Tensor:
    """Places in `free` [F], rising, another for each wanted leaf [m], as near as the crowd allows.

    Each first takes the nearest. Where many want one place, the crowd pushed to the left and the crowd pushed to the
    right are averaged, so it stands on both sides.
    """
    wanted, order = wanted.sort(stable=True)
    right = torch.searchsorted(free, wanted).clamp(max=len(free) - 1)
    left = (right - 1).clamp(min=0)
    nearest = torch.where((free[right] - wanted).abs() < (wanted - free[left]).abs(), right, left)
    steps = torch.arange(len(wanted), device=wanted.device)
    slack = len(free) - len(wanted)
    pushed = (nearest - steps).cummax(0).values.clamp(max=slack) + steps
    pulled = (nearest - steps).flip(0).cummin(0).values.flip(0).clamp(min=0) + steps
    # Both rise by at least one a step, so half their sum does too, and both stay within the free slots.
    return torch.empty_like(order).scatter(0, order, (pushed + pulled) // 2)


def _merged(tree: Tree, items: Tensor, near: Tensor) -> Tensor:
    """Old and new items in one order, each new one behind the one it is near to."""
    live = tree.item_of_leaf[tree.item_of_leaf >= 0].long()
    rank = torch.full((tree.n_items + 1,), -1, device=live.device)
    rank[live] = torch.arange(len(live), device=live.device)
    anywhere = torch.arange(len(items), device=live.device) * len(live) // len(items)
    behind = torch.where(near >= 0, rank[near], anywhere)
    places = torch.cat([2 * torch.arange(len(live), device=live.device), 2 * behind + 1])
    return torch.cat([live, items])[places.argsort(stable=True)]


def _checked(tree: Tree, items: Tensor, near: Tensor | None) -> tuple[Tensor, Tensor]:
    items = _whole_numbers("items", items).to(tree.device)
    near = torch.full_like(items, -1) if near is None else _whole_numbers("near", near).to(tree.device)
    if near.shape != items.shape:
        raise DataError(f"near must name one item for each of {len(items)} new ones, got {len(near)}")
    if bool(((items < 0) | (items >= MOST)).any()):
        raise DataError(
            f"new items must be rows of 0 .. {MOST - 1}, got {int(items.min())} .. {int(items.max())}"
        )
    if bool((there := tree.leaves(items) >= 0).any()):
        raise DataError(f"item {int(items[there][0])} is already in the tree; delete it first to move it")
    if len(torch.unique(items)) < len(items):
        raise DataError("cannot insert an item twice; name every item once")
    if bool((lost := (near >= 0) & (tree.leaves(near) < 0)).any()):
        raise DataError(f"near item {int(near[lost][0])} is not in the tree; name another or -1")
    return items, near.clamp(min=-1)


def _whole_numbers(name: str, items: Tensor) -> Tensor:
    if items.dim() != 1 or items.dtype not in (torch.int32, torch.int64):
        raise DataError(f"{name} must be whole numbers in a row, got {items.dtype} {list(items.shape)}")
    return items.long()
