"""The terms of a split that all segments share: budget, floors, lengths of lists and prices."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.coverage import ABSENT, Bools, Floats, Ints
from shortlist.metrics.nomination.greedy import SLACK, Blocks
from shortlist.metrics.nomination.prices import Covered, Milliseconds, Price, Slots


@dataclass(frozen=True, eq=False)
class Lists:
    """All distinct candidates of some requests, with their ranks: what a split costs in candidates."""

    rank: Ints  # [C, N]
    segments: Ints  # [C]
    requests: Ints  # [G] of each segment

    def of(self, segment: int | None) -> tuple[Ints, int]:
        """The candidates of a segment and its requests; those of all without a segment, or where it has none."""
        if segment is None or not self.requests[segment]:
            return self.rank, int(self.requests.sum())
        return self.rank[self.segments == segment], int(self.requests[segment])


@dataclass(frozen=True, eq=False)
class Terms:
    """What every segment has in common."""

    budget: int
    block: int
    floor: Ints  # [N]
    most: Ints  # [N]
    lists: Lists | None
    prices: tuple[Floats, float] | None

    @classmethod
    def of(
        cls,
        ranks: Ints,
        budget: int,
        block: int,
        floor: int | Sequence[int],
        most: int | Sequence[int] | None,
        lists: Lists | None,
        costs: ArrayLike | None,
        latency: float | None,
    ) -> "Terms":
        """Checked terms for the nominators that find a positive."""
        if (
            not (isinstance(budget, int | np.integer) and isinstance(block, int | np.integer))
            or min(budget, block) < 1
        ):
            raise ConfigError(
                f"budget and block: expected at least 1, got {budget} and {block}; both are whole numbers"
            )
        if lists is not None and lists.rank.shape[1] != ranks.shape[1]:
            raise ConfigError(
                f"lists: expected the ranks of {ranks.shape[1]} nominators, got those of {lists.rank.shape[1]}"
            )
        live = np.asarray((ranks < ABSENT).any(axis=0), np.bool_)
        if not live.any():
            raise ConfigError(
                f"rank: no nominator returns any of {len(ranks)} positives, so nothing can be learned; "
                "nominate longer lists, or keep the limits of the recipe"
            )
        prices = _checked_prices(costs, latency, ranks.shape[1])
        longest = np.where(live, _each(most, "most", ranks.shape[1], ABSENT), 0)
        if lists is not None:
            longest = np.minimum(longest, _deepest(lists.rank) + 1)
        least = np.minimum(np.where(live, _each(floor, "floor", ranks.shape[1], 0), 0), longest)
        terms = cls(budget, block, least, longest, lists, prices)
        terms._check(live)
        return terms

    def split(self, ranks: Ints, weight: Floats, segment: int | None = None) -> Ints:
        """The limits [N] that cover the most weight."""
        most = -(-(self.most - self.floor) // self.block)  # the last block may be a part
        total = int(most.sum())
        if self.lists is None:
            total = min((self.budget - int(self.floor.sum())) // self.block, total)
        price, limit = self._price(total, segment)
        found = Covered.of(ranks, weight, self.floor, self.block)
        blocks = Blocks(found, most, total, price, limit).best()
        limits = np.minimum(self.floor + self.block * blocks, self.most)
        return self._rest(ranks, weight, limits) if isinstance(price, Slots) else limits

    def _price(self, total: int, segment: int | None) -> tuple[Price, float]:
        if self.prices is not None:
            costs, limit = self.prices
            once = np.where(self.floor > 0, 0.0, costs[:, 0])
            return Milliseconds(once, costs[:, 1] * self.block), limit - self._floor_milliseconds()
        if self.lists is None:
            return Slots(), total
        rank, requests = self.lists.of(segment)
        weight = np.full(len(rank), 1.0 / max(requests, 1))
        return Covered.of(rank, weight, self.floor, self.block), self.budget

    def _rest(self, ranks: Ints, weight: Floats, limits: Ints) -> Ints:
        """The slots left over by whole blocks, one list after another, the best gain first."""
        limits = limits.copy()
        while (left := self.budget - int(limits.sum())) > 0:
            missed = (ranks >= limits).all(1)
            more = np.minimum(limits + left, self.most)
            gains = ((ranks[missed] < more) * weight[missed, None]).sum(0)
            chosen = int(np.where(more > limits, gains, -1.0).argmax())
            limits[chosen] = more[chosen]
        return limits

    def _check(self, live: Bools) -> None:
        least = self._least()
        if least > self.budget + SLACK:
            raise ConfigError(
                f"budget: expected at least {least:g}, the floors of {live.sum()} nominators together, "
                f"got {self.budget}; raise the budget, lower the floor, or use fewer nominators"
            )
        if self.prices is None and self.lists is None and self.most.sum() < self.budget:
            raise ConfigError(
                f"budget: expected at most {self.most.sum()}, the lists of {live.sum()} nominators together, "
                f"got {self.budget}; nominate longer lists, or lower the budget"
            )
        if self.prices is not None and self._floor_milliseconds() > self.prices[1]:
            raise ConfigError(
                f"latency: expected at least {self._floor_milliseconds():g} ms, what the floors cost, "
                f"got {self.prices[1]:g} ms; raise the latency, lower the floor, or use fewer nominators"
            )

    def _least(self) -> float:
        """What the floors cost of the budget."""
        if self.lists is None:
            return float(self.floor.sum())
        found = (self.lists.rank < self.floor).any(axis=1).sum()
        return float(found / max(int(self.lists.requests.sum()), 1))

    def _floor_milliseconds(self) -> float:
        assert self.prices is not None
        return float((self.prices[0] * np.stack([self.floor > 0, self.floor], 1)).sum())


def _deepest(ranks: Ints) -> Ints:
    """The deepest rank of each list [N], -1 without any."""
    return np.asarray(np.where(ranks < ABSENT, ranks, -1).max(axis=0, initial=-1), np.int64)


def _each(value: int | Sequence[int] | None, name: str, count: int, default: int) -> Ints:
    """One whole number from 0 per nominator."""
    whole = np.asarray(default if value is None else value)
    if whole.dtype.kind not in "iu" or whole.shape not in ((), (count,)) or (whole < 0).any():
        raise ConfigError(
            f"{name}: expected a whole number from 0, or one for each of {count} nominators, got {value!r}"
        )
    return np.asarray(np.broadcast_to(whole, count), np.int64)


def _checked_prices(
    costs: ArrayLike | None, latency: float | None, count: int
) -> tuple[Floats, float] | None:
    if costs is None and latency is None:
        return None
    if costs is None or latency is None:
        raise ConfigError("costs and latency: expected both or none, got one of them; give the other one too")
    each = np.asarray(costs, np.float64)
    if each.shape != (count, 2) or not np.isfinite(each).all() or (each < 0).any():
        raise ConfigError(
            f"costs: expected milliseconds of a call and of a slot for {count} nominators [N, 2], got {costs!r}"
        )
    if not 0 < latency < float("inf"):
        raise ConfigError(f"latency: expected positive milliseconds, got {latency}")
    return each, float(latency)
