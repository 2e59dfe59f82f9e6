"""What a beam loses on its way down a tree, counted against a search that looks at every leaf."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.index.tree import Found, TreeIndex, exhaustive, search


@dataclass(frozen=True)
class Account:
    """Held-out items, each counted for each user who met it: wanted - found = model + search - lucky.

    `model`: not among the k best of all leaves. `search`: among them, but the beam lost them. `lucky`: not among them,
    yet found, because the beam lost better ones. Part of `model`, each apart from the others: the `absent`, which have
    no leaf; the `seen`, which the user had met and the tree leaves out; the `crowded`, of users who want more than k.
    """

    wanted: int
    found: int
    model: int
    search: int
    lucky: int
    absent: int
    seen: int
    crowded: int


class Compared(NamedTuple):
    """Some users searched both ways."""

    found: Found  # by the beam, traced
    best: Found  # of all leaves
    top_alive: Tensor  # bool [U, k, H + 1]: an ancestor of each of the best is in the beam, level by level
    wanted_alive: Tensor  # bool [U, R, H + 1], the same for held-out items
    missed_by_all: Tensor  # bool [U, R]: held-out items that are not among the best of all leaves


@dataclass(frozen=True)
class Asked:
    """How a tree is searched: so many items by so wide a beam; `fresh` leaves out the history."""

    k: int
    beam: int
    product: bool = False
    exclude_seen: bool = False

    def by_beam(self, index: TreeIndex, history: Tensor, trace: bool = True, skip: bool = True) -> Found:
        exclude = history if self.exclude_seen else None
        return search(index, history, self.k, self.beam, exclude, path=self.product, trace=trace, skip=skip)

    def by_all(self, index: TreeIndex, history: Tensor) -> Found:
        return exhaustive(index, history, self.k, history if self.exclude_seen else None, path=self.product)


def compare(index: TreeIndex, history: Tensor, truth: Tensor, asked: Asked) -> Compared:
    """Search for users [U, K] by the beam and by all leaves, and follow their held-out items [U, R], -1 = padding."""
    found, best = asked.by_beam(index, history), asked.by_all(index, history)
    return Compared(
        found,
        best,
        survival(index, found, best.items),
        survival(index, found, truth),
        ~is_in(truth, best.items) & (truth >= 0),
    )


def survival(index: TreeIndex, found: Found, items: Tensor) -> Tensor:
    """Whether each item [U, R] can still be found after each level: bool [U, R, H + 1], never True after a False.

    At level j its ancestor is in the beam; at the leaves it is among the results. Levels above the first that the beam
    had to choose from keep everything that has a leaf.
    """
    tree, leaves = index.tree, index.tree.leaves(items)
    alive = (leaves >= 0)[:, :, None].repeat(1, 1, tree.shape.height + 1)
    for beam in found.beams[:-1]:
        alive[:, :, beam.level] = is_in(tree.shape.ancestor(leaves, beam.level), beam.nodes)
    alive[:, :, -1] = is_in(items, found.items)
    return alive


def lost_at(alive: Tensor, there: Tensor) -> Tensor:
    """How many of the items that are there [U, R] are lost at each level: int64 [H + 1]; they add up to all lost."""
    before = torch.cat([there[:, :, None], alive[:, :, :-1]], 2)
    return (before & ~alive & there[:, :, None]).sum((0, 1))


def account(
    compared: Compared, truth: Tensor, index: TreeIndex, history: Tensor, exclude_seen: bool
) -> Account:
    """The held-out items [U, R] in whole numbers."""
    there = truth >= 0
    absent = there & (index.tree.leaves(truth) < 0)
    seen = is_in(truth, history) & ~absent if exclude_seen else torch.zeros_like(there)
    found = compared.wanted_alive[:, :, -1]
    missed = compared.missed_by_all
    wants = (there & ~absent & ~seen).sum(1)
    crowded = (wants - compared.best.items.shape[1]).clamp(min=0)  # [U]
    counts = (there, found, missed, there & ~missed & ~found, missed & found, absent, seen, crowded)
    return Account(*(int(one.sum()) for one in counts))
