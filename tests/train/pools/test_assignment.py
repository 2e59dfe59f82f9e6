"""Assignment with bounded load: the best of all, whatever the sizes."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from shortlist.errors import ConfigError
from shortlist.train.pools.assignment import assign


def value(weights, owners):
    return float(weights[owners, np.arange(len(owners))].sum())


def by_places(weights, room):
    """The oracle: every owner is as many columns as it has room."""
    rows, columns = linear_sum_assignment(np.repeat(weights, room, axis=0).T, maximize=True)
    owners = np.empty(weights.shape[1], dtype=np.int64)
    owners[rows] = columns // room
    return owners


def test_it_is_the_best_of_all_assignments():
    weights = np.random.default_rng(0).random((3, 6))
    allowed = [
        np.array(one) for one in product(range(3), repeat=6) if np.bincount(one, minlength=3).max() <= 2
    ]
    assert value(weights, assign(weights, 2)) == pytest.approx(max(value(weights, one) for one in allowed))


@pytest.mark.parametrize("seed", range(12))
def test_it_is_as_good_as_the_hungarian_method_and_respects_the_load(seed):
    random = np.random.default_rng(seed)
    n_owners, n_items = int(random.integers(2, 9)), int(random.integers(20, 150))
    weights = random.dirichlet(np.full(n_owners, 0.5), size=n_items).T + 0.3 * random.random((n_owners, 1))
    room = int(np.ceil(n_items * random.choice([1.0, 1.1, 1.5]) / n_owners))
    owners = assign(weights, room)
    assert np.bincount(owners, minlength=n_owners).max() <= room
    assert value(weights, owners) == pytest.approx(value(weights, by_places(weights, room)), abs=1e-7)


def test_equal_and_coarse_weights_are_shared_out():
    assert np.bincount(assign(np.full((4, 21), 0.25), 6)).max() <= 6
    weights = np.random.default_rng(1).integers(0, 3, (4, 40)).astype(float)
    assert value(weights, assign(weights, 10)) == pytest.approx(value(weights, by_places(weights, 10)))


def test_with_room_every_item_goes_to_its_largest_weight():
    weights = np.random.default_rng(2).random((3, 30))
    assert np.array_equal(assign(weights, 30), weights.argmax(0))
    assert np.array_equal(assign(weights[:1], 30), np.zeros(30))


def test_pools_that_cannot_hold_all_items_are_refused():
    with pytest.raises(ConfigError, match="2 pools of at most 1 items cannot hold 3"):
        assign(np.ones((2, 3)), 1)
