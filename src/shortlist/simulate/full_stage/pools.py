"""Candidate pools: for every user a sorted list of items, held as two arrays."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import DataError
from shortlist.simulate.full_stage.cell_noise import Rows
from shortlist.simulate.full_stage.short_video import CELLS, ShortVideoWorld, user_blocks

ITEM_BITS = 32  # of the number of a cell
BLOCK = 1 << 16  # cells of a block of `cell_values`
Score = Callable[[Rows, Rows], NDArray[Any]]
"""Users [B] and items, [K] for all users or [B, K], to values of cells [B, K]."""


@dataclass(frozen=True, eq=False)
class Pools:
    """The candidates of users [P]: those of user p are item[offsets[p] : offsets[p + 1]], ascending, no duplicates."""

    user: Rows  # [P]
    item: Rows  # [C]
    offsets: Rows  # [P + 1]

    def __post_init__(self) -> None:
        starts = np.zeros(len(self.item) + 1, bool)
        starts[self.offsets] = True
        if len(self.offsets) != len(self.user) + 1 or int(self.offsets[-1]) != len(self.item):
            raise DataError(
                f"pools: expected {len(self.user) + 1} offsets that end at {len(self.item)}, "
                f"got {len(self.offsets)} that end at {self.offsets[-1:]}"
            )
        if np.any((np.diff(self.item) <= 0) & ~starts[1:-1]):
            raise DataError("pools: expected ascending items without duplicates for every user; sort them")

    @property
    def sizes(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def users(self) -> Rows:
        """The user of every candidate [C]."""
        return np.repeat(self.user, self.sizes)

    def where(self, keep: NDArray[np.bool_]) -> "Pools":
        """The candidates with `keep` [C]; all users stay."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Pools(self.user, self.item[keep], kept[self.offsets])

    def cells_of(self, users: Rows, items: Rows) -> NDArray[np.bool_]:
        """Which candidates are among the given cells [N] -> [C]."""
        return np.isin((self.users << ITEM_BITS) + self.item, (users << ITEM_BITS) + items)


def whole_catalogue(users: Rows, n_items: int) -> Pools:
    """The pools of retrieval: every item for every user."""
    items = np.tile(np.arange(n_items), len(users))
    return Pools(users, items, np.arange(len(users) + 1) * n_items)


def exposed_pools(world: ShortVideoWorld, users: Rows, *, small: bool = True, big: bool = True) -> Pools:
    """The pools of pre-ranking: items a user was exposed to in either matrix, or in one of them."""
    items = np.arange(world.n_items)
    parts = (
        (big & world.seen(part, items)) | (small & world.in_block(part, items))
        for part in user_blocks(users, world.n_items, CELLS)
    )
    return pools_of(users, parts)


def pools_of(users: Rows, members: Iterable[NDArray[np.bool_]]) -> Pools:
    """Pools from blocks of membership tables [B, I]; memory for one block at a time if they come one at a time."""
    items, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in members:
        items.append(np.nonzero(part)[1])
        counts.append(part.sum(axis=1))
    return Pools(users, np.concatenate(items), np.concatenate([[0], np.cumsum(np.concatenate(counts))]))


def cell_values(function: Score, users: Rows, items: Rows) -> NDArray[Any]:
    """The values of a stage score, `r` or `labels` of a world for cells [N], in blocks of a bounded size."""
    parts = [
        function(users[at : at + BLOCK], items[at : at + BLOCK, None])[:, 0]
        for at in range(0, len(users), BLOCK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
