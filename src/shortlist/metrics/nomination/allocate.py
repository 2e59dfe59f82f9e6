"""Split a budget of candidates over nominators, by the ranks that their lists give the positives of a log."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.coverage import (
    ABSENT,
    Bools,
    Floats,
    Ints,
    checked_ranks,
    checked_segments,
    covered,
    found_by_any,
    per_segment,
)
from shortlist.metrics.nomination.greedy import Blocks, Prices


@dataclass(frozen=True, eq=False)
class Allocation:
    """Slots of each nominator in each segment, and what they cover of the positives they were fitted on."""

    limits: Ints  # [G, N]
    budget: int
    coverage: float
    by_segment: Floats  # [G], NaN without positives
    positives: Ints  # [G]

    def of(self, segment: int) -> Ints:
        """The slots of each nominator in a segment [N]."""
        return np.asarray(self.limits[segment], np.int64)


def allocate(
    rank: ArrayLike,
    budget: int,
    *,
    segments: ArrayLike | None = None,
    n_segments: int | None = None,
    block: int = 10,
    floor: int | Sequence[int] = 5,
    shrink: float = 500.0,
    most: int | Sequence[int] | None = None,
    costs: ArrayLike | None = None,
    latency: float | None = None,
) -> Allocation:
    """Limits that cover the most positives with `budget` slots per request: greedy by blocks, then exchanges.

    `segments` [P] gives each segment limits of its own. The coverage of a segment with n positives is shrunk towards
    that of all with the weight of `shrink` positives, so a segment without positives has the limits of all. Every
    nominator that finds a positive has at least `floor` slots, or its own entry of it; one that finds none has none.
    `most` is the length of the lists. With `costs` [N, 2], the milliseconds of a call and of a slot, and `latency`,
    limits are chosen by coverage per millisecond and may add up to less than the budget.
    """
    ranks = checked_ranks(rank)
    own, count = checked_segments(segments, len(ranks), n_segments)
    terms = _Terms.of(ranks, budget, block, floor, most, _prices(costs, latency, ranks.shape[1]))
    if not shrink >= 0:
        raise ConfigError(f"shrink: expected a number of positives from 0, got {shrink}")
    positives = np.bincount(own, minlength=count)
    whole = terms.split(ranks, np.full(len(ranks), 1.0 / len(ranks)))
    limits = np.stack(
        [
            terms.split(ranks, ((own == row) + shrink / len(ranks)) / (size + shrink))
            if size and count > 1
            else whole
            for row, size in enumerate(positives)
        ]
    )
    found = found_by_any(covered(ranks, limits, own))
    return Allocation(
        limits,
        budget,
        float(found.mean()),
        per_segment(found, own, count),
        positives,
    )


@dataclass(frozen=True, eq=False)
class _Terms:
    """What every segment has in common."""

    budget: int
    block: int
    floor: Ints  # [N]
    most: Ints  # [N]
    prices: tuple[Floats, float] | None

    @classmethod
    def of(
        cls,
        ranks: Ints,
        budget: int,
        block: int,
        floor: int | Sequence[int],
        most: int | Sequence[int] | None,
        prices: tuple[Floats, float] | None,
    ) -> "_Terms":
        if budget < 1 or block < 1:
            raise ConfigError(f"budget and block: expected at least 1, got {budget} and {block}")
        live = np.asarray((ranks < ABSENT).any(axis=0), np.bool_)
        if not live.any():
            raise ConfigError(
                f"rank: no nominator returns any of {len(ranks)} positives, so nothing can be learned; "
                "nominate longer lists, or keep the limits of the recipe"
            )
        longest = np.where(live, _each(most, "most", ranks.shape[1], ABSENT), 0)
        least = np.minimum(np.where(live, _each(floor, "floor", ranks.shape[1], 0), 0), longest)
        terms = cls(budget, block, least, longest, prices)
        terms._check(live)
        return terms

    def _check(self, live: Bools) -> None:
        if self.floor.sum() > self.budget:
            raise ConfigError(
                f"budget: expected at least {self.floor.sum()}, the floors of {live.sum()} nominators together, "
                f"got {self.budget}; raise the budget, lower the floor, or use fewer nominators"
            )
        if self.prices is None and self.most.sum() < self.budget:
            raise ConfigError(
                f"budget: expected at most {self.most.sum()}, the lists of {live.sum()} nominators together, "
                f"got {self.budget}; nominate longer lists, or lower the budget"
            )
        if self.prices is not None:
            least = float((self.prices[0] * np.stack([self.floor > 0, self.floor], 1)).sum())
            if least > self.prices[1]:
                raise ConfigError(
                    f"latency: expected at least {least:g} ms, what the floors cost, got {self.prices[1]:g} ms; "
                    "raise the latency, lower the floor, or use fewer nominators"
                )

    def split(self, ranks: Ints, weight: Floats) -> Ints:
        """The limits [N] that cover the most weight."""
        beyond = ranks - self.floor
        depth = np.where(ranks == ABSENT, ABSENT, np.where(beyond < 0, 0, beyond // self.block + 1))
        distinct, at = np.unique(depth, axis=0, return_inverse=True)
        most = (self.most - self.floor) // self.block
        together = np.bincount(at.reshape(-1), weight, len(distinct)).astype(np.float64)
        blocks = Blocks(distinct, together, most, self._block_prices())
        total = min((self.budget - int(self.floor.sum())) // self.block, int(most.sum()))
        made = blocks.exchanged(blocks.greedy(np.zeros_like(most), total))
        made = blocks.greedy(made, total)  # an exchange can leave milliseconds over
        return self._rest(ranks, weight, self.floor + self.block * made)

    def _block_prices(self) -> Prices | None:
        if self.prices is None:
            return None
        costs, limit = self.prices
        once = np.where(self.floor > 0, 0.0, costs[:, 0])
        spent = float((costs * np.stack([self.floor > 0, self.floor], 1)).sum())
        return Prices(once, costs[:, 1] * self.block, limit - spent)

    def _rest(self, ranks: Ints, weight: Floats, limits: Ints) -> Ints:
        """The slots left over by whole blocks, one list after another, the best gain first."""
        limits = limits.copy()
        while self.prices is None and (left := self.budget - int(limits.sum())) > 0:
            missed = (ranks >= limits).all(1)
            more = np.minimum(limits + left, self.most)
            gains = ((ranks[missed] < more) * weight[missed, None]).sum(0)
            chosen = int(np.where(more > limits, gains, -1.0).argmax())
            limits[chosen] = more[chosen]
        return limits


def _each(value: int | Sequence[int] | None, name: str, count: int, default: int) -> Ints:
    """One whole number from 0 per nominator."""
    whole = np.asarray(default if value is None else value)
    if whole.dtype.kind not in "iu" or whole.shape not in ((), (count,)) or (whole < 0).any():
        raise ConfigError(
            f"{name}: expected a whole number from 0, or one for each of {count} nominators, got {value!r}"
        )
    return np.asarray(np.broadcast_to(whole, count), np.int64)


def _prices(costs: ArrayLike | None, latency: float | None, count: int) -> tuple[Floats, float] | None:
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
