"""Static requests (spec 4.1): items drawn from the pool of a user, then cut by the pre-rank and the rank score.

1. Draw 1,000 items of the pool without replacement.
2. Sort by pre-rank score: the top 200 go on, the bottom 200 are pre-rank negatives.
3. Sort the 200 by rank score: the top 50 are exposed, the bottom 50 are rank negatives.
4. The label of an exposed item is its Y; other labels are not available.

Items between are not part of the request. Ties are broken by item, ascending.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError
from shortlist.simulate.full_stage.cell_noise import Rows, cell_bits
from shortlist.simulate.full_stage.pools import Pools, Score, cell_values
from shortlist.simulate.full_stage.short_video import CELLS
from shortlist.train.objectives.stage_log import StageLog

Scores = NDArray[np.float32]
PRERANK_NEGATIVE, RANK_NEGATIVE, EXPOSED = 1, 2, 3  # the last stage S that an item passed
NOT_AVAILABLE = -1


@dataclass(frozen=True)
class RequestSizes:
    """Numbers of items of a static request; a pool with fewer items than `drawn` scales all of them."""

    drawn: int = 1000
    kept: int = 200  # by the pre-rank score; as many pre-rank negatives
    exposed: int = 50  # by the rank score; as many rank negatives

    def __post_init__(self) -> None:
        if not 0 < 2 * self.exposed <= self.kept or 2 * self.kept > self.drawn:
            raise ConfigError(
                f"static request: expected 2 * exposed <= kept and 2 * kept <= drawn, got {self}"
            )


@dataclass(frozen=True, eq=False)
class ScoredPools:
    """Pools with the scores and the label of every candidate [C]."""

    pools: Pools
    prerank: Scores
    rank: Scores
    label: NDArray[np.bool_]

    @classmethod
    def of(cls, pools: Pools, prerank: Score, rank: Score, labels: Score) -> "ScoredPools":
        """Pools with the scores of both stages and the labels of a world."""
        users = pools.users
        first, second, label = (cell_values(one, users, pools.item) for one in (prerank, rank, labels))
        return cls(pools, first, second, label)

    def where(self, keep: NDArray[np.bool_]) -> "ScoredPools":
        """The candidates with `keep` [C]."""
        return ScoredPools(self.pools.where(keep), self.prerank[keep], self.rank[keep], self.label[keep])


@dataclass(frozen=True, eq=False)
class StaticRequests:
    """Requests [R] and their items [C], in the form that the instance sampler reads."""

    user_id: Rows  # [R] rows of users
    offsets: Rows  # [R + 1]
    item_id: Rows  # [C] rows of items
    stage: NDArray[np.int8]  # [C] S: 1 pre-rank negative, 2 rank negative, 3 exposed
    y: NDArray[np.int8]  # [C] 1, 0, or -1 where the item was not exposed
    drawn: Rows  # [R] items drawn from the pool
    kept: Rows  # [R] items that pre-ranking kept
    scaled: NDArray[np.bool_]  # [R] the pool was smaller than a request

    def __len__(self) -> int:
        return len(self.user_id)

    @property
    def users(self) -> Rows:
        """The user of every item [C]."""
        return np.repeat(self.user_id, np.diff(self.offsets))

    @property
    def positives(self) -> NDArray[np.bool_]:
        """The exposed positives [C]."""
        return np.asarray(self.y == 1)

    def log(self, n_items: int) -> StageLog:
        """The requests for the instance sampler: a log of three stages (retrieval, pre-rank, rank)."""
        return StageLog(
            self.user_id, self.offsets, self.item_id, self.stage, self.y, n_items, n_stages=EXPOSED
        )

    def where(self, keep: NDArray[np.bool_]) -> "StaticRequests":
        """The same requests with the items of `keep` [C]."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        return StaticRequests(
            self.user_id,
            kept[self.offsets],
            self.item_id[keep],
            self.stage[keep],
            self.y[keep],
            self.drawn,
            self.kept,
            self.scaled,
        )


def static_requests(
    pools: ScoredPools, sizes: RequestSizes | None = None, count: int = 1, seed: int = 0
) -> StaticRequests:
    """`count` requests of every user, request 0 of all users first; the same seed gives the same requests."""
    _check(pools)
    sizes = sizes or RequestSizes()
    blocks = [
        _block(pools, rows, sizes, seed, number)
        for number in range(count)
        for rows in _user_blocks(pools.pools)
    ]
    return joined(blocks)


def exposure_rates(
    pools: ScoredPools, sizes: RequestSizes | None = None, count: int = 100, seed: int = 0
) -> NDArray[np.float64]:
    """The share of `count` fresh requests in which each candidate is exposed [C]; times the label it is the oracle."""
    _check(pools)
    sizes, total = sizes or RequestSizes(), np.zeros(len(pools.pools.item))
    for number in range(count):
        for rows in _user_blocks(pools.pools):
            cut = _cut(pools, rows, sizes, seed, number)
            total[cut.place[cut.stage == EXPOSED]] += 1
    return total / max(count, 1)


def joined(parts: list[StaticRequests]) -> StaticRequests:
    """Requests one after another."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return StaticRequests(
        np.concatenate([part.user_id for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([part.item_id for part in parts]),
        np.concatenate([part.stage for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.drawn for part in parts]),
        np.concatenate([part.kept for part in parts]),
        np.concatenate([part.scaled for part in parts]),
    )


@dataclass(frozen=True, eq=False)
class _Cut:
    """What the two cuts did to a block of users [B, W]; stage 0 is an item that is not part of the request."""

    place: Rows  # position in the pools
    stage: NDArray[np.int8]
    drawn: Rows  # [B]
    kept: Rows  # [B]


def _block(pools: ScoredPools, rows: Rows, sizes: RequestSizes, seed: int, number: int) -> StaticRequests:
    cut = _cut(pools, rows, sizes, seed, number)
    inside = cut.stage > 0
    place, stage = cut.place[inside], cut.stage[inside]
    label = np.where(stage == EXPOSED, pools.label[place], NOT_AVAILABLE)
    offsets = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    user = pools.pools.user[rows]
    scaled = pools.pools.sizes[rows] < sizes.drawn
    return StaticRequests(
        user, offsets, pools.pools.item[place], stage, label.astype(np.int8), cut.drawn, cut.kept, scaled
    )


def _cut(pools: ScoredPools, rows: Rows, sizes: RequestSizes, seed: int, number: int) -> _Cut:
    """Draw, then cut by both scores: one request of every user of a block."""
    size = pools.pools.sizes[rows]
    drawn, kept, exposed = (
        _scaled(one, size, sizes.drawn) for one in (sizes.drawn, sizes.kept, sizes.exposed)
    )
    place, valid = _drawn(pools.pools, rows, drawn, seed, number)
    first = _ranks(pools.prerank[place], valid)
    on = first < kept[:, None]
    second = _ranks(pools.rank[place], on)
    stage = np.zeros(place.shape, np.int8)
    stage[valid & (first >= (drawn - kept)[:, None])] = PRERANK_NEGATIVE
    stage[on & (second >= (kept - exposed)[:, None])] = RANK_NEGATIVE
    stage[on & (second < exposed[:, None])] = EXPOSED
    return _Cut(place, stage, drawn, kept)


def _scaled(count: int, size: Rows, drawn: int) -> Rows:
    """The number of items of a request, in proportion where the pool is smaller than a request."""
    return np.minimum(count, np.floor(count * size / drawn + 1e-9)).astype(np.int64)


def _drawn(pools: Pools, rows: Rows, drawn: Rows, seed: int, number: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Positions of the drawn candidates [B, W], ascending, and which of them exist.

    The candidates with the smallest hashes are drawn: what is drawn depends on the cell, not on the block.
    """
    place = pools.offsets[rows][:, None] + np.arange(int(pools.sizes[rows].max(initial=0)))  # [B, P]
    exists = place < pools.offsets[rows + 1][:, None]
    items = pools.item[np.where(exists, place, 0)]
    keys = np.where(exists, cell_bits(seed, number, pools.user[rows], items) >> np.uint64(1), 1 << 63)
    width = int(drawn.max(initial=0))
    chosen = np.argpartition(keys, min(width, keys.shape[1] - 1), axis=1)[:, :width]
    place = np.sort(np.take_along_axis(np.where(exists, place, len(pools.item)), chosen, axis=1), axis=1)
    valid = place < len(pools.item)
    return np.where(valid, place, 0), valid


def _ranks(scores: Scores, valid: NDArray[np.bool_]) -> Rows:
    """Rank of each score among the valid ones of its row, 0 = highest, ties by position; invalid ones come last."""
    order = np.argsort(np.where(valid, -scores, np.inf), axis=1, kind="stable")
    ranks = np.empty(order.shape, np.int64)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None, :], axis=1)
    return ranks


def _user_blocks(pools: Pools) -> Iterator[Rows]:
    """Rows of the pools in groups of a bounded number of candidates."""
    size = max(CELLS // max(int(pools.sizes.max(initial=0)), 1), 1)
    for start in range(0, len(pools.user), size):
        yield np.arange(start, min(start + size, len(pools.user)))


def _check(pools: ScoredPools) -> None:
    for name in ("prerank", "rank", "label"):
        values = getattr(pools, name)
        if len(values) != len(pools.pools.item) or not np.isfinite(values).all():
            raise DataError(
                f"static request: expected {len(pools.pools.item):,} finite values of {name}, one per candidate, "
                f"got {len(values):,}"
            )
    if not len(pools.pools.user) or not pools.pools.sizes.all():
        raise DataError(
            "static request: expected a pool of at least one item for every user, got an empty one"
        )
