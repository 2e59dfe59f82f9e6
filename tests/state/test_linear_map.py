"""The map between two versions, and when it may be used."""

import math

import numpy as np
import pytest

from shortlist.state.linear_map import fitted_map

USERS, ITEMS, WIDTH = 400, 300, 6


def world(seed=0):
    rng = np.random.default_rng(seed)
    states, items = rng.normal(size=(USERS, WIDTH)), rng.normal(size=(ITEMS, WIDTH))
    gauge = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] @ np.diag(np.linspace(0.5, 2, WIDTH))
    return states, items, gauge


def top(vectors, items, k=100):
    return [set(row.tolist()) for row in np.argsort(-(vectors @ items.T), axis=1)[:, :k]]


def test_same_top_100_in_another_gauge():
    """Spec test 37: item rows X' = X A^-1 and states s' = A s give the same items, and the map finds A."""
    states, items, gauge = world()
    new_states, new_items = states @ gauge.T, items @ np.linalg.inv(gauge)
    assert top(new_states, new_items) == top(states, items)
    found = fitted_map(states, new_states, new_items, 1e-9)
    np.testing.assert_allclose(found.matrix, gauge.T, atol=1e-6)
    np.testing.assert_allclose(found.shift, 0, atol=1e-6)
    assert found.correlation == pytest.approx(1)
    assert found.held_out == USERS // 5
    assert found.allowed
    assert top(found(states), new_items) == top(states, items)


def test_map_between_unrelated_versions_is_not_allowed():
    states, items, _ = world()
    found = fitted_map(states, world(1)[0], items, 1e-6)
    assert found.correlation < 0.5
    assert not found.allowed


def test_map_is_tried_on_users_who_are_not_in_the_fit():
    """With as many coordinates as users, the fit is perfect and the held-out scores are not."""
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(50, 60)), rng.normal(size=(50, WIDTH))
    found = fitted_map(old, new, world()[1], 1e-12)
    np.testing.assert_allclose(found(old[:4]), new[:4], atol=1e-3)
    assert not found.allowed


@pytest.mark.parametrize("count", [0, 1, 4])
def test_map_of_too_few_users_is_not_allowed(count):
    states, items, gauge = world()
    found = fitted_map(states[:count], states[:count] @ gauge.T, items, 1e-6)
    assert math.isnan(found.correlation)
    assert not found.allowed
