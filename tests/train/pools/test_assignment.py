"""Assignment with bounded load: exact, and by swaps near the optimum."""

from itertools import product

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.train.pools.assignment import assign, assign_by_swaps, assign_exactly


def value(weights: np.ndarray, owners: np.ndarray) -> float:
    return float(weights[owners, np.arange(len(owners))].sum())


def test_the_exact_assignment_is_the_best_of_all() -> None:
    weights = np.random.default_rng(0).random((3, 6))
    allowed = [
        np.array(one) for one in product(range(3), repeat=6) if np.bincount(one, minlength=3).max() <= 2
    ]
    best = max(value(weights, owners) for owners in allowed)
    assert value(weights, assign_exactly(weights, 2)) == pytest.approx(best)


@pytest.mark.parametrize("room", [50, 60])
def test_swaps_come_near_the_optimum_and_respect_the_load(room: int) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        weights = random.dirichlet(np.full(4, 0.5), size=200).T + np.array([[0.3], [0.0], [0.0], [0.1]])
        owners, best = assign_by_swaps(weights, room), assign_exactly(weights, room)
        assert np.bincount(owners, minlength=4).max() <= room
        assert value(weights, owners) >= 0.995 * value(weights, best)


def test_pools_that_cannot_hold_all_items_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 pools of at most 1 items cannot hold 3"):
        assign(np.ones((2, 3)), 1)
