"""What each nominator contributes to the coverage of all: alone, as a loss without it, and as a Shapley value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.allocate import FLOOR, allocate
from shortlist.metrics.nomination.coverage import (
    ABSENT,
    Bools,
    Floats,
    checked_limits,
    checked_ranks,
    checked_segments,
    coverage,
    covered,
)

SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Attribution:
    """Coverage of all nominators, and the part of each by three definitions [N]."""

    total: float
    solo: Floats  # coverage of the nominator alone
    leave_one_out: Floats  # what the others do not find
    shapley: Floats  # adds up to the total

    def check(self) -> None:
        """Shapley values add up to the total, each between leave-one-out and solo."""
        assert abs(self.shapley.sum() - self.total) <= SLACK, "Shapley values do not add up to the coverage"
        assert (self.leave_one_out <= self.shapley + SLACK).all(), (
            "a nominator adds more than its Shapley value"
        )
        assert (self.shapley <= self.solo + SLACK).all(), "a Shapley value is above the coverage alone"


def attribution(rank: ArrayLike, limits: ArrayLike, segments: ArrayLike | None = None) -> Attribution:
    """Attribution of the coverage of these limits: a positive of m nominators gives 1 / m to each of them."""
    found = covered(rank, limits, segments)
    if not len(found):
        nothing = np.full(found.shape[1], np.nan)
        return Attribution(float("nan"), nothing, nothing, nothing)
    times = found.sum(1, keepdims=True)
    return Attribution(
        float(found.any(1).mean()),
        np.asarray(found.mean(0), np.float64),
        np.asarray((found & (times == 1)).mean(0), np.float64),
        np.asarray((found / times.clip(min=1)).mean(0), np.float64),
    )


def refilled_leave_one_out(
    rank: ArrayLike, limits: ArrayLike, segments: ArrayLike | None = None, **settings: Any
) -> Floats:
    """Coverage lost without each nominator when `allocate` gives its slots to the others [N].

    A negative value says that the others do better with the slots. It is NaN where no other nominator finds a
    positive, and where the lists of the others are shorter than the budget. `settings` are those of `allocate`; the
    floor is lowered where the budget is too small for it.
    """
    ranks, slots = checked_ranks(rank), checked_limits(limits)
    own, count = checked_segments(segments, len(ranks), len(slots) if slots.ndim == 2 else None)
    budgets = np.unique(slots.reshape(-1, ranks.shape[1]).sum(1))
    if len(budgets) != 1:
        raise ConfigError(f"limits: expected the same budget in every segment, got {budgets.tolist()}")
    whole, lost = coverage(ranks, slots, own if slots.ndim == 2 else None), []
    for nominator in range(ranks.shape[1]):
        others, its = np.delete(ranks, nominator, axis=1), _without(settings, nominator)
        live = (others < ABSENT).any(axis=0)
        its["floor"] = np.minimum(its.get("floor", FLOOR), int(budgets[0]) // max(int(live.sum()), 1))
        longest = ABSENT if its.get("most") is None else its["most"]
        most = np.where(live, np.broadcast_to(longest, live.shape), 0).sum()
        if not live.any() or (most < budgets[0] and its.get("lists") is None and its.get("costs") is None):
            lost.append(float("nan"))
        else:
            kept = allocate(others, int(budgets[0]), segments=own, n_segments=count, **its)
            lost.append(whole - kept.coverage)
    return np.asarray(lost, np.float64)


def _without(settings: Mapping[str, Any], nominator: int) -> dict[str, Any]:
    """The settings of `allocate` for the others."""
    each = [name for name in ("floor", "most", "costs") if np.ndim(settings.get(name, 0)) > 0]
    own: dict[str, Any] = {name: np.delete(np.asarray(settings[name]), nominator, axis=0) for name in each}
    if settings.get("lists") is not None:
        own["lists"] = replace(settings["lists"], rank=np.delete(settings["lists"].rank, nominator, axis=1))
    return {**settings, **own}


@dataclass(frozen=True, eq=False)
class SampledShapley:
    """Shapley values of any game, with their standard errors [N]."""

    values: Floats
    error: Floats


def shapley_sampled(
    value: Callable[[Bools], float],
    n: int,
    permutations: int = 200,
    *,
    antithetic: bool = True,
    seed: int = 0,
) -> SampledShapley:
    """Mean gain of each player over random orders, where `value` takes the players present [n].

    Antithetic orders come in pairs, one the reverse of the other. Values of the same players are computed once.
    """
    pairs = 2 if antithetic else 1
    if n < 1 or permutations < 2 * pairs:
        raise ConfigError(
            f"shapley_sampled: expected a player and at least {2 * pairs} permutations, got {n} and {permutations}"
        )
    known, random = dict[bytes, float](), np.random.default_rng(seed)

    def gains(order: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
        present = np.zeros(n, np.bool_)
        made, before = np.zeros(n), _known(known, value, present)
        for player in order:
            present[player] = True
            after = _known(known, value, present)
            made[player], before = after - before, after
        return made

    draws = []
    for _ in range(permutations // pairs):
        order = random.permutation(n)
        draws.append((gains(order) + gains(order[::-1])) / 2 if antithetic else gains(order))
    sampled = np.stack(draws)
    return SampledShapley(sampled.mean(0), sampled.std(0, ddof=1) / np.sqrt(len(sampled)))


def _known(known: dict[bytes, float], value: Callable[[Bools], float], present: Bools) -> float:
    key = present.tobytes()
    if key not in known:
        known[key] = float(value(present.copy()))
    return known[key]
