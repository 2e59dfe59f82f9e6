"""Prices of blocks: what is added and moved is the difference of two totals."""

import numpy as np
import pytest

from shortlist.metrics.nomination.coverage import ABSENT
from shortlist.metrics.nomination.prices import Covered, Milliseconds, Price, Slots

NOMINATORS, BLOCK = 3, 4
FLOOR = np.array([2, 0, 5])


def some_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of rows in three lists, a third of them absent, and weights."""
    random = np.random.default_rng(seed)
    ranks = random.integers(0, 30, (60, NOMINATORS))
    ranks[random.random(ranks.shape) < 1 / 3] = ABSENT
    return ranks, random.random(60)


def prices_of(seed: int) -> list[Price]:
    ranks, weight = some_rows(seed)
    times = Milliseconds(np.array([1.0, 0.0, 2.0]), np.array([0.1, 0.4, 0.2]))
    return [Slots(), times, Covered.of(ranks, weight, FLOOR, BLOCK)]


@pytest.mark.parametrize("price", prices_of(0) + prices_of(1), ids=lambda one: type(one).__name__)
def test_added_blocks_cost_the_difference_of_totals(price: Price) -> None:
    for blocks in (np.zeros(NOMINATORS, np.int64), np.array([1, 3, 0]), np.array([2, 2, 4])):
        for nominator in range(NOMINATORS):
            added = price.added(nominator, blocks, 3)
            for step in range(1, 4):
                more = blocks + step * (np.arange(NOMINATORS) == nominator)
                assert added[step - 1] == pytest.approx(price.total(more) - price.total(blocks))


@pytest.mark.parametrize("price", prices_of(0) + prices_of(1), ids=lambda one: type(one).__name__)
def test_moved_blocks_cost_the_difference_of_totals(price: Price) -> None:
    for blocks in (np.array([3, 3, 3]), np.array([5, 4, 3])):
        for source, target in ((0, 1), (1, 2), (2, 0)):
            moved = price.moved(source, target, blocks, 3)
            for step in range(1, 4):
                after = blocks.copy()
                after[source] -= step
                after[target] += step
                assert moved[step - 1] == pytest.approx(price.total(after) - price.total(blocks))


@pytest.mark.parametrize("seed", range(5))
def test_coverage_is_the_weight_of_rows_within_the_limits(seed: int) -> None:
    ranks, weight = some_rows(seed)
    covered = Covered.of(ranks, weight, FLOOR, BLOCK)
    for blocks in (np.zeros(NOMINATORS, np.int64), np.array([1, 3, 0]), np.array([5, 5, 5])):
        limits = FLOOR + BLOCK * blocks
        assert covered.total(blocks) == pytest.approx(weight[(ranks < limits).any(1)].sum())
