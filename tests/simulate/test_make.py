"""The arrays of a new world."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate import ChoiceModel, make_world
from shortlist.simulate.make import FAVOURITES, OPEN, START


def test_every_category_has_an_item_and_a_small_world_has_fewer_categories() -> None:
    assert np.unique(make_world(1, 24, 24).categories).tolist() == list(range(24))
    small = make_world(1, 5, 24)
    assert sorted(small.categories.tolist()) == [0, 1, 2, 3, 4]
    assert (small.interests.shape, small.phases.shape) == ((2, 1, 5), (5,))


def test_half_the_items_are_released_at_the_start_and_one_of_each_category_always() -> None:
    assert (make_world(1, 2000, 24).release_times <= START).mean() == pytest.approx(0.5, abs=0.05)
    assert (make_world(1, 24, 24).release_times <= START).all()  # one item in each


def test_users_have_three_favourites_and_one_changes() -> None:
    general = 1 / np.sqrt(np.arange(1, 25))
    liked = make_world(50, 30, 24).interests > OPEN * general / general.sum() + 1e-6  # [2, U, C]
    assert (liked.sum(axis=2) == FAVOURITES).all()
    assert (liked.all(axis=0).sum(axis=1) == FAVOURITES - 1).all()


@pytest.mark.parametrize("n_categories", [2, 3, 4, 24])
def test_category_shares_of_users_sum_to_one(n_categories: int) -> None:
    shares = make_world(20, 30, n_categories).interests.sum(axis=2)
    np.testing.assert_allclose(shares, np.ones((2, 20)), rtol=1e-5)


def test_users_leave_before_the_end_and_activity_varies_at_most_tenfold() -> None:
    world = make_world(3000, 2, 2)
    assert world.arrivals.min() >= 0
    assert (world.arrivals + world.lifetimes).max() <= 1
    assert world.activity.sum() == pytest.approx(1, abs=1e-4)
    assert world.activity.max() / world.activity.min() == pytest.approx(10, rel=0.01)


def test_vectors_have_unit_length_and_items_of_a_category_are_more_similar() -> None:
    world = make_world(1, 200, 4)
    similarity = world.vectors @ world.vectors.T  # [I, I]
    same = world.categories[:, None] == world.categories
    np.testing.assert_allclose(np.diag(similarity), 1, rtol=1e-5)
    assert similarity[same & ~np.eye(200, dtype=bool)].mean() > similarity[~same].mean() + 0.1


def test_a_setting_changes_only_its_own_arrays() -> None:
    plain, other = (
        make_world(4, 9, 3),
        make_world(4, 9, 3, choice_model=ChoiceModel(taste=0.0), popularity=0.0),
    )
    assert not other.tastes.any()
    np.testing.assert_allclose(other.appeal, 1 / np.bincount(other.categories)[other.categories], rtol=1e-6)
    for name in (
        "categories",
        "vectors",
        "release_times",
        "interests",
        "activity",
        "arrivals",
        "lifetimes",
        "phases",
    ):
        assert np.array_equal(vars(plain)[name], vars(other)[name]), name


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_items": 0}, "world: n_items must be positive, got 0"),
        ({"dim": -1}, "world: dim must be positive, got -1"),
        ({"days": 0.0}, "world: days must be positive, got 0.0"),
        ({"days": float("nan")}, "world: days must be positive, got nan"),
        ({"seed": -1}, "world: seed must not be negative, got -1"),
        ({"n_categories": 0}, "world: n_categories must lie between 1 and 24, got 0"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_world(**{"n_users": 2, "n_items": 2, **setting})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "setting", [{"days": float("inf")}, {"activity": 0.0}, {"popularity": float("nan")}, {"popularity": -1.0}]
)
def test_non_finite_and_negative_settings_are_refused(setting):
    with pytest.raises(ConfigError, match=f"world: {next(iter(setting))} must be"):
        make_world(5, 5, **setting)
