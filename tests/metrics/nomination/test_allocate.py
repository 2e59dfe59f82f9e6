"""The split of a budget against brute force, and what it refuses."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.allocate import allocate
from shortlist.metrics.nomination.coverage import ABSENT, coverage
from shortlist.metrics.nomination.terms import Lists

Ints = NDArray[np.int64]


def concave_ranks(seed: int, positives: int = 60, depth: int = 14, disjoint: bool = False) -> Ints:
    """Positives whose ranks are rarer further down, in every list on its own."""
    random = np.random.default_rng(seed)
    rank = random.geometric(random.uniform(0.1, 0.5, 3), (positives, 3)).astype(np.int64) - 1
    rank[(rank >= depth) | (random.random(rank.shape) < random.uniform(0.2, 0.8, 3))] = ABSENT
    if disjoint:
        rank[np.arange(3) != random.integers(0, 3, positives)[:, None]] = ABSENT
    for column in rank.T:
        column[column < ABSENT] = _by_frequency(column[column < ABSENT])
    rank[0] = 0  # every nominator is live
    return rank


def _by_frequency(ranks: Ints) -> Ints:
    """The same counts of ranks, the most frequent first: a concave curve."""
    order = np.argsort(-np.bincount(ranks), kind="stable") if len(ranks) else ranks
    return np.argsort(order)[ranks] if len(ranks) else ranks


def best_by_brute_force(rank: Ints, budget: int) -> float:
    splits = (one for one in product(range(budget + 1), repeat=rank.shape[1]) if sum(one) == budget)
    return max(coverage(rank, one) for one in splits)


@pytest.mark.parametrize("seed", range(12))
def test_split_of_concave_curves_is_near_the_best_one(seed: int) -> None:
    rank = concave_ranks(seed)
    found, best = allocate(rank, 12, block=1, floor=0), best_by_brute_force(rank, 12)
    assert found.limits.sum() == 12
    assert found.coverage == coverage(rank, found.of(0))
    assert (1 - 1 / math.e) * best <= found.coverage <= best


@pytest.mark.parametrize("seed", range(12))
def test_split_of_disjoint_concave_lists_is_the_best_one(seed: int) -> None:
    rank = concave_ranks(seed, disjoint=True)
    assert allocate(rank, 12, block=1, floor=0).coverage == pytest.approx(best_by_brute_force(rank, 12))


def test_list_whose_hits_come_late_gets_its_slots() -> None:
    late = np.array([[ABSENT, 8 + row % 2] for row in range(20)] + [[row, ABSENT] for row in range(4)])
    assert allocate(late, 12, block=1, floor=0).limits.tolist() == [[2, 10]]


def test_first_step_is_the_first_piece_of_the_least_concave_majorant() -> None:
    hits = np.random.default_rng(3).integers(0, 9, 20)
    rank = np.repeat(np.arange(20), hits)[:, None]
    steepest = _first_piece(hits)
    wide = np.concatenate([np.pad(rank, ((0, 0), (0, 1)), constant_values=ABSENT), [[ABSENT, 0]]])
    found = allocate(wide, steepest, block=1, floor=0)
    assert found.limits.tolist() == [[steepest, 0]]


def _first_piece(gains: Ints) -> int:
    """Length of the first piece by pooling adjacent violators."""
    pieces: list[tuple[float, int]] = []
    for gain in gains:
        total, length = float(gain), 1
        while pieces and pieces[-1][0] / pieces[-1][1] <= total / length:
            before = pieces.pop()
            total, length = total + before[0], length + before[1]
        pieces.append((total, length))
    return pieces[0][1]


def test_no_nominator_alone_covers_more_than_the_split() -> None:
    rank = np.array([[3, 11, ABSENT], [ABSENT, 9, 2], [5, 10, ABSENT], [ABSENT, 11, 6], [ABSENT, 10, ABSENT]])
    found = allocate(rank, 12, block=1, floor=0)
    assert found.coverage >= 1.0
    assert found.limits.tolist() == [[0, 12, 0]]


def test_last_block_may_be_a_part_of_the_list() -> None:
    rank = np.arange(40)[:, None]
    found = allocate(rank, 40, block=10, floor=5)
    assert found.limits.tolist() == [[40]]
    lists = Lists(rank, np.zeros(40, np.int64), np.array([1]))
    assert allocate(rank, 60, block=10, floor=5, lists=lists).limits.tolist() == [[40]]


def test_exchange_fixes_what_greedy_takes_too_early() -> None:
    both = [[ABSENT, 0, ABSENT]] * 5 + [[ABSENT, ABSENT, 0]] * 5 + [[0, 0, ABSENT]] * 3 + [[0, ABSENT, 0]] * 3
    assert allocate(np.array(both), 2, block=1, floor=0).limits.tolist() == [[0, 1, 1]]


def test_blocks_floors_and_the_rest_add_up_to_the_budget() -> None:
    rank = np.random.default_rng(5).integers(0, 80, (300, 4))
    for budget in (20, 47, 101, 200):
        for block in (1, 7, 10, 500):
            limits = allocate(rank, budget, block=block, floor=[5, 0, 3, 5]).limits[0]
            assert limits.sum() == budget
            assert (limits >= [5, 0, 3, 5]).all()


def test_lists_bound_the_limits() -> None:
    rank = np.stack([np.arange(30) % 10, np.full(30, 29)], axis=1)
    limits = allocate(rank, 60, most=[10, 50], floor=0, block=8).limits[0]
    assert limits.tolist() == [10, 50]


def test_segments_get_the_split_of_their_own_positives() -> None:
    first, second = [[0, ABSENT], [25, ABSENT]] * 300, [[ABSENT, 25], [ABSENT, 0]] * 300
    rank, segments = np.array(first + second), np.repeat([0, 1], 600)
    found = allocate(rank, 30, segments=segments, floor=0, shrink=10)
    assert found.limits.tolist() == [[30, 0], [0, 30]]
    assert found.by_segment.tolist() == [1, 1]
    assert allocate(rank, 30, floor=0).coverage == 0.5


def test_few_positives_keep_the_split_of_all() -> None:
    rank = np.array([[0, ABSENT], [25, ABSENT]] * 300 + [[ABSENT, 25]] * 3)
    segments = np.repeat([0, 1], [600, 3])
    whole = allocate(rank, 30, floor=0).limits[0].tolist()
    assert allocate(rank, 30, segments=segments, floor=0, shrink=500).limits.tolist() == [whole, whole]
    assert allocate(rank, 30, segments=segments, floor=0, shrink=0).limits.tolist() == [whole, [0, 30]]


def test_segment_without_positives_has_the_split_of_all() -> None:
    rank = np.random.default_rng(1).integers(0, 60, (200, 3))
    found = allocate(rank, 60, segments=np.repeat([0, 2], 100), n_segments=4)
    whole = allocate(rank, 60).limits[0].tolist()
    assert found.limits[[1, 3]].tolist() == [whole, whole]
    assert np.isnan(found.by_segment[[1, 3]]).all()
    assert found.positives.tolist() == [100, 0, 100, 0]


def test_nominator_that_returns_nothing_has_no_slots() -> None:
    rank = np.array([[0, ABSENT], [15, ABSENT]])
    assert allocate(rank, 20).limits.tolist() == [[20, 0]]


def test_latency_is_kept_and_gain_per_millisecond_decides() -> None:
    rank = np.array([[row, row] for row in range(40)] + [[row, ABSENT] for row in range(40)])
    cheap = allocate(rank, 40, floor=0, costs=[[5.0, 1.0], [1.0, 0.1]], latency=5.5)
    assert cheap.limits.tolist() == [[0, 40]]
    rich = allocate(rank, 40, floor=0, costs=[[5.0, 1.0], [1.0, 0.1]], latency=100)
    assert rich.limits.tolist() == [[40, 0]]


@pytest.mark.parametrize("seed", range(6))
def test_latency_of_floors_and_blocks_stays_in_the_limit(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank, costs = random.integers(0, 90, (200, 3)), random.uniform(0.01, 2.0, (3, 2))
    limits = allocate(rank, 100, floor=2, costs=costs, latency=40).limits[0]
    assert (costs * np.stack([limits > 0, limits], 1)).sum() <= 40
    assert 6 <= limits.sum() <= 100


RANK = np.random.default_rng(0).integers(0, 50, (100, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"budget": 10},
            "at least 15, the floors of 3 nominators together, got 10; raise the budget, lower the floor",
        ),
        ({"budget": 2, "floor": 1}, "at least 3, the floors"),
        ({"budget": 0}, "expected at least 1, got 0"),
        ({"block": 0}, "expected at least 1"),
        ({"most": 20, "budget": 61}, "at most 60, the lists of 3 nominators .* nominate longer lists"),
        ({"floor": -1}, "floor: expected a whole number from 0"),
        ({"floor": [1, 2]}, "one for each of 3 nominators"),
        ({"shrink": -1.0}, "shrink: expected"),
        ({"shrink": float("nan")}, "shrink: expected"),
        ({"costs": [[1.0, 1.0]] * 3}, "expected both or none"),
        ({"costs": [[1.0, 1.0]] * 2, "latency": 5.0}, "for 3 nominators"),
        ({"costs": [[1.0, float("nan")]] * 3, "latency": 5.0}, "for 3 nominators"),
        ({"costs": [[1.0, 1.0]] * 3, "latency": 5.0}, "at least 18 ms, what the floors cost"),
        ({"costs": [[1.0, 1.0]] * 3, "latency": float("nan")}, "positive milliseconds"),
    ],
)
def test_bad_terms_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        allocate(RANK, **{"budget": 60, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("rank", [np.zeros((0, 3), np.int64), np.full((9, 3), ABSENT)])
def test_nothing_is_learned_without_a_found_positive(rank: Ints) -> None:
    with pytest.raises(ConfigError, match=r"no nominator returns any .* keep the limits of the recipe"):
        allocate(rank, 60)


def test_more_nominators_than_slots_are_split_without_a_floor() -> None:
    rank = np.where(np.eye(5, dtype=bool), 0, ABSENT)
    assert allocate(rank, 3, floor=0).limits.sum() == 3
    assert allocate(rank, 3, floor=0, block=1).coverage == 0.6


def test_weights_decide_which_positives_count() -> None:
    rank = np.array([[0, ABSENT]] * 3 + [[ABSENT, 0]])
    assert allocate(rank, 1, block=1, floor=0).limits.tolist() == [[1, 0]]
    heavy = allocate(rank, 1, block=1, floor=0, weights=[1, 1, 1, 9])
    assert heavy.limits.tolist() == [[0, 1]]
    assert heavy.coverage == 9 / 12


@pytest.mark.parametrize("seed", range(6))
def test_split_of_distinct_candidates_is_near_the_best_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    every = np.where(random.random((400, 3)) < 0.5, random.integers(0, 10, (400, 3)), ABSENT)
    every = every[(every < ABSENT).any(axis=1)]
    lists = Lists(every, np.zeros(len(every), np.int64), np.array([40]))
    rank = every[random.random(len(every)) < 0.2]
    found = allocate(rank, 6, block=1, floor=0, lists=lists)

    def distinct(limits: tuple[int, ...]) -> float:
        return float((every < limits).any(axis=1).sum() / 40)

    best = max(coverage(rank, one) for one in product(range(11), repeat=3) if distinct(one) <= 6)
    assert distinct(tuple(found.of(0))) <= 6
    assert (1 - 1 / math.e) * best <= found.coverage <= best


def test_nominator_of_the_same_items_costs_no_distinct_candidates() -> None:
    same = np.stack([np.arange(30) % 10, np.arange(30) % 10, np.full(30, ABSENT)], axis=1)
    other = np.stack([np.full(30, ABSENT), np.full(30, ABSENT), np.arange(30) % 10], axis=1)
    every = np.concatenate([same, other])
    lists = Lists(every, np.zeros(60, np.int64), np.array([3]))
    limits = allocate(every, 14, block=1, floor=0, lists=lists).limits[0]
    assert limits[:2].max() + limits[2] == 14


def test_segment_without_lists_has_the_prices_of_all() -> None:
    rank = np.arange(20)[:, None].repeat(2, axis=1)
    lists = Lists(rank, np.zeros(20, np.int64), np.array([1, 0]))
    found = allocate(rank, 10, segments=np.arange(20) % 2, lists=lists, floor=0, block=1)
    assert found.limits.max(axis=1).tolist() == [10, 10]


def test_floors_above_the_distinct_budget_are_refused() -> None:
    lists = Lists(RANK, np.zeros(100, np.int64), np.array([2]))
    with pytest.raises(ConfigError, match=r"at least 15\.5, the floors of 3 nominators together, got 4"):
        allocate(RANK, 4, floor=5, lists=lists)


@pytest.mark.parametrize("weights", [[1.0], np.zeros(100), np.full(100, np.nan)])
def test_bad_weights_are_refused(weights: object) -> None:
    with pytest.raises(ConfigError, match="a number above 0 for each of 100 positives"):
        allocate(RANK, 60, weights=weights)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 2.5}, "expected at least 1, got 2.5 and 1; both are whole"),
        ({"block": 0}, "expected at least 1, got 4 and 0"),
        ({"shrink": float("inf")}, "expected a finite number of positives"),
        (
            {"lists": Lists(np.zeros((2, 3), np.int64), np.zeros(2, np.int64), np.array([1]))},
            "expected the ranks of 2 nominators, got those of 3",
        ),
    ],
)
def test_numbers_that_make_no_split_are_refused(settings: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"budget": 4, "block": 1, "floor": 0, **settings}
    with pytest.raises(ConfigError, match=message):
        allocate(np.array([[0, 1], [2, ABSENT]]), **given)  # type: ignore[arg-type]
