"""Insertion and deletion of items, and rebalancing."""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from shortlist.errors import DataError
from shortlist.index.tree.index import TreeIndex
from shortlist.index.tree.tree import Tree, grow
from shortlist.models.nodes import NodeScorer

MAX_ITEM = 2**31 - 1  # item_of_leaf is int32


def insert(index: TreeIndex, items: Tensor, near: Tensor | None = None, spare: float = 0.1) -> TreeIndex:
    """The index with new items [m] in free slots close to the items `near` [m]; -1 for no preference.

    An item past the end of the catalogue extends it. Where slots run out, the tree is rebalanced with each item behind
    its near item, and with `spare` free slots. The vector of a new leaf is the mean of its siblings, else that of its
    near item, else that of its parent.
    """
    items, near = _checked(index.tree, items, near)
    if not len(items):
        return index
    tree, n_items = index.tree, max(index.tree.n_items, int(items.max()) + 1)
    free = (tree.item_of_leaf < 0).nonzero()[:, 0]
    if len(items) > len(free):
        order = _merged(tree, items, near)
        grown = replace(grow(order, n_items, tree.shape.branch, spare), version=tree.version + 1)
        return _Move(index, grown, items, near, rebuilt=True).result()
    slots = free[_nearest_free(free, _preferred_leaves(tree, near))]
    leaves = tree.item_of_leaf.index_put((slots,), items.int())
    return _Move(index, Tree(tree.shape, leaves, n_items, tree.version + 1), items, near).result()


def delete(index: TreeIndex, items: Tensor) -> TreeIndex:
    """The index without some items [m]: their slots become free, the scorer is unchanged."""
    tree, items = index.tree, _checked_rows("items", items).to(index.tree.device)
    leaves = tree.leaves(items)
    if bool((leaves < 0).any()):
        raise DataError(f"cannot delete item {int(items[leaves < 0][0])}: it is not in the tree")
    if len(torch.unique(leaves)) < len(leaves):
        raise DataError("cannot delete an item twice; list every item once")
    free = tree.item_of_leaf.index_fill(0, leaves, -1)
    return replace(index, tree=Tree(tree.shape, free, tree.n_items, tree.version + 1))


def rebalance(index: TreeIndex, spare: float = 0.1) -> TreeIndex:
    """The same items in the same order with free slots spread evenly; a tree without items is returned unchanged.

    The vector of a leaf moves with its item. An inner node gets the mean, over the items below it, of their old
    ancestors' vectors at the same distance from the leaves.
    """
    tree = index.tree
    order = tree.item_of_leaf[tree.item_of_leaf >= 0]
    if not len(order):
        return index
    grown = replace(grow(order, tree.n_items, tree.shape.branch, spare), version=tree.version + 1)
    none = order.new_empty(0).long()
    return _Move(index, grown, none, none, rebuilt=True).result()


@dataclass(frozen=True, eq=False)
class _Move:
    """A change from an index to another tree, with new items and their near items; computes the new vectors."""

    old: TreeIndex
    tree: Tree
    items: Tensor  # new items [m]
    near: Tensor  # existing items near them, -1 = none [m]
    rebuilt: bool = False  # nodes cover other items than before

    @torch.no_grad()
    def result(self) -> TreeIndex:
        nodes = torch.cat([self._inner, self._leaves()])
        items = None if self.old.scorer.items is None else self._item_table(self.old.scorer.items.weight)
        height, before = self.tree.shape.height, self.old.tree.shape.height
        first = min(
            max(self.old.first + height - before, 1), max(height, 1)
        )  # as far from the leaves as before
        return TreeIndex(self.tree, with_tables(self.old.scorer, nodes, items), self.old.leaf_vectors, first)

    @property
    def _table(self) -> Tensor:
        return self.old.scorer.nodes.weight

    @cached_property
    def _inner(self) -> Tensor:
        """Vectors of all nodes above the leaves, level by level [nodes, D]."""
        shape = self.tree.shape
        if not self.rebuilt:
            return self._table[: shape.offsets[-1]]
        levels = [self._table[:1]]  # the old root's vector, for nodes without an old item
        for level in range(shape.height):
            levels.append(self._inner_level(level, levels[-1]))
        return torch.cat([self._table[:0], *levels[1:]])

    def _inner_level(self, level: int, above: Tensor) -> Tensor:
        """Means of the old ancestors' vectors [nodes, D]; the parent's vector for a node without an old item."""
        shape, before = self.tree.shape, self.old.tree.shape
        same = max(
            0, before.height - (shape.height - level)
        )  # the old level at the same distance from the leaves
        new, old = self._moved_leaves
        rows = self.old.rows(same, before.ancestor(old, same))
        nodes, size = shape.ancestor(new, level), shape.sizes[level]
        sums = self._table.new_zeros((size, self._table.shape[1]), dtype=torch.float64)
        sums.index_add_(0, nodes, self._table[rows].double())
        counts = torch.bincount(nodes, minlength=size)[:, None]
        parents = above[torch.arange(size, device=nodes.device) // (shape.branch if level else 1)]
        return torch.where(counts > 0, (sums / counts.clamp(min=1)).to(parents.dtype), parents)

    @cached_property
    def _moved_leaves(self) -> tuple[Tensor, Tensor]:
        """New and old leaf of every item with an old leaf; a new item uses the one of its near item."""
        leaves = (self.tree.item_of_leaf >= 0).nonzero()[:, 0]
        items = self.tree.item_of_leaf[leaves].long()
        source = torch.arange(self.tree.n_items, device=items.device).index_put((self.items,), self.near)
        old = self.old.tree.leaves(source[items])
        return leaves[old >= 0], old[old >= 0]

    def _leaves(self) -> Tensor:
        """Vectors of the leaves, per slot or per item [rows, D]."""
        height, tree = self.old.tree.shape.height, self.old.tree
        rows = self.old.level_rows(height)
        if self.old.leaf_vectors == "item":
            own = _extended(self._table[tree.shape.offsets[-1] :], self.tree.n_items)
        else:
            own = self._table.new_zeros((self.tree.n_items, self._table.shape[1]))
            taken = tree.item_of_leaf >= 0
            own[tree.item_of_leaf[taken].long()] = self._table[rows[taken]]
        own = own.index_put((self.items,), self._initial(own, self._parents()))
        if self.old.leaf_vectors == "item":
            return own
        slots = self.tree.item_of_leaf.long()
        unused = own.new_zeros(1) if self.rebuilt else self._table[rows]
        return torch.where(slots[:, None] >= 0, own[slots.clamp(min=0)], unused)

    def _parents(self) -> Tensor:
        """Vectors of the parents of the new items' leaves [m, D]; of the old root in a tree of one leaf."""
        shape = self.tree.shape
        if shape.height == 0:
            return self._table[:1].expand(len(self.items), -1)
        parents = shape.parent(self.tree.leaves(self.items))
        return self._inner[shape.offsets[-2] + parents]

    def _item_table(self, table: Tensor) -> Tensor:
        """Vectors of history items [n_items, D]: the old ones, extended for new items."""
        extended = _extended(table, self.tree.n_items)
        initial = self._initial(extended, extended[self.items])
        known = (self.items < len(table))[:, None]
        return extended.index_put((self.items,), torch.where(known, extended[self.items], initial))

    def _initial(self, own: Tensor, otherwise: Tensor) -> Tensor:
        """Vectors of new items [m, D]: the mean of the siblings, else the near item's, else `otherwise`."""
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
    """A copy of the scorer with other vectors for nodes and items."""
    replaced: dict[int, object] = {id(scorer.nodes): _embedding(nodes, scorer.nodes)}
    if scorer.items is not None and items is not None:
        replaced[id(scorer.items)] = _embedding(items, scorer.items)
    n_items = scorer.config.n_items if items is None else len(items)
    copy = deepcopy(scorer, replaced)
    copy.config = replace(scorer.config, n_rows=len(nodes), n_items=n_items)
    return copy


def _embedding(vectors: Tensor, like: nn.Embedding) -> nn.Embedding:
    weight = vectors.detach().clone()
    made = nn.Embedding(len(weight), weight.shape[1], _weight=weight)
    return made.requires_grad_(like.weight.requires_grad).train(like.training)


def _extended(table: Tensor, n: int) -> Tensor:
    return torch.nn.functional.pad(table, (0, 0, 0, max(0, n - len(table))))


def _preferred_leaves(tree: Tree, near: Tensor) -> Tensor:
    """The leaves where new items should be [m]; items without a near item are spread evenly."""
    spread = torch.arange(len(near), device=near.device) * tree.shape.n // len(near)
    return torch.where(near >= 0, tree.leaves(near), spread)


def _nearest_free(free: Tensor, preferred: Tensor) -> Tensor:
    """Distinct positions in `free` [F], ascending, close to the preferred leaves [m].

    Each item first takes the nearest position. Where several take the same one, the positions after shifting all to the
    right and after shifting all to the left are averaged, so that they spread to both sides.
    """
    preferred, order = preferred.sort(stable=True)
    right = torch.searchsorted(free, preferred).clamp(max=len(free) - 1)
    left = (right - 1).clamp(min=0)
    nearest = torch.where((free[right] - preferred).abs() < (preferred - free[left]).abs(), right, left)
    steps = torch.arange(len(preferred), device=preferred.device)
    slack = len(free) - len(preferred)
    rightmost = (nearest - steps).cummax(0).values.clamp(max=slack) + steps
    leftmost = (nearest - steps).flip(0).cummin(0).values.flip(0).clamp(min=0) + steps
    # Both increase by at least one per step, so their mean does too, and both stay within the free slots.
    return torch.empty_like(order).scatter(0, order, (rightmost + leftmost) // 2)


def _merged(tree: Tree, items: Tensor, near: Tensor) -> Tensor:
    """Old and new items in one order, each new one behind its near item."""
    live = tree.item_of_leaf[tree.item_of_leaf >= 0].long()
    rank = torch.full((tree.n_items + 1,), -1, device=live.device)
    rank[live] = torch.arange(len(live), device=live.device)
    spread = torch.arange(len(items), device=live.device) * len(live) // len(items)
    behind = torch.where(near >= 0, rank[near], spread)
    places = torch.cat([2 * torch.arange(len(live), device=live.device), 2 * behind + 1])
    return torch.cat([live, items])[places.argsort(stable=True)]


def _checked(tree: Tree, items: Tensor, near: Tensor | None) -> tuple[Tensor, Tensor]:
    items = _checked_rows("items", items).to(tree.device)
    near = torch.full_like(items, -1) if near is None else _checked_rows("near", near).to(tree.device)
    if near.shape != items.shape:
        raise DataError(f"near must hold one item for each of {len(items)} new ones, got {len(near)}")
    if bool(((items < 0) | (items >= MAX_ITEM)).any()):
        raise DataError(
            f"new items must be rows in 0 .. {MAX_ITEM - 1}, got {int(items.min())} .. {int(items.max())}"
        )
    if bool((present := tree.leaves(items) >= 0).any()):
        raise DataError(f"item {int(items[present][0])} is already in the tree; delete it first to move it")
    if len(torch.unique(items)) < len(items):
        raise DataError("cannot insert an item twice; list every item once")
    if bool((missing := (near >= 0) & (tree.leaves(near) < 0)).any()):
        raise DataError(f"near item {int(near[missing][0])} is not in the tree; give another item or -1")
    return items, near.clamp(min=-1)


def _checked_rows(name: str, items: Tensor) -> Tensor:
    if items.dim() != 1 or items.dtype not in (torch.int32, torch.int64):
        raise DataError(f"{name} must be a 1-d tensor of integers, got {items.dtype} {list(items.shape)}")
    return items.long()
