"""Logs with the shape of public ones: sizes, 5-core, bursts, long tails and drift."""

from collections.abc import Callable

import numpy as np
import pytest

from shortlist.data import Dataset
from shortlist.errors import ConfigError
from shortlist.simulate import amazon_like, power_law


@pytest.fixture(scope="module")
def shoppers() -> Dataset:
    return amazon_like(size="small")


@pytest.fixture(scope="module")
def long_tailed() -> Dataset:
    return power_law(size="small")


@pytest.mark.parametrize("make", [amazon_like, power_law])
def test_the_log_depends_only_on_the_seed(make: Callable[[int, str], Dataset]) -> None:
    assert make(1, "small").fingerprint == make(1, "small").fingerprint
    assert make(1, "small").fingerprint != make(2, "small").fingerprint


@pytest.mark.parametrize("make", [amazon_like, power_law])
def test_an_unknown_size_is_refused(make: Callable[[int, str], Dataset]) -> None:
    with pytest.raises(ConfigError, match=r"expected a size of full, (medium, )?small, got 'demo'"):
        make(0, "demo")


def test_shoppers_have_short_histories_and_every_user_and_item_has_five_events(shoppers: Dataset) -> None:
    events = shoppers.events
    assert min(events.lengths.min(), events.popularity.min()) >= 5
    assert np.median(events.lengths) <= 7


def test_shoppers_buy_in_bursts_of_one_day(shoppers: Dataset) -> None:
    events = shoppers.events
    same_user = events.users[1:] == events.users[:-1]
    same_day = (events.times[1:] == events.times[:-1])[same_user]
    assert (events.times % 86_400_000 == 0).all()
    assert 0.4 < same_day.mean() < 0.8


def test_shoppers_stay_with_a_brand_more_often_than_chance(shoppers: Dataset) -> None:
    events, brands = shoppers.events, np.array(shoppers.catalog.table["brand"].to_pylist())
    of_event = brands[events.items]
    same_user = events.users[1:] == events.users[:-1]
    stays = (of_event[1:] == of_event[:-1])[same_user].mean()
    _, counts = np.unique(of_event, return_counts=True)
    assert stays > 2 * ((counts / counts.sum()) ** 2).sum()


def test_users_and_items_of_the_power_law_have_long_tails(long_tailed: Dataset) -> None:
    lengths, popularity = long_tailed.events.lengths, np.sort(long_tailed.events.popularity)[::-1]
    assert lengths.max() > 10 * np.median(lengths)
    assert popularity[: len(popularity) // 10].sum() > 0.3 * len(long_tailed.events)


def test_popularity_of_the_power_law_drifts(long_tailed: Dataset) -> None:
    """Popularity of the first third predicts that of the last third worse than that of the second third."""
    events = long_tailed.events
    third = np.searchsorted(np.quantile(events.times, [1 / 3, 2 / 3]), events.times)
    first, second, last = (
        np.bincount(events.items[third == at], minlength=events.n_items) for at in range(3)
    )
    assert np.corrcoef(first, last)[0, 1] < np.corrcoef(second, last)[0, 1] - 0.1
