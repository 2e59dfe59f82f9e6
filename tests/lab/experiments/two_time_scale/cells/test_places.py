"""Places of the two-time-scale tables."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_time_scale.cells.places import (
    MOVIELENS,
    TINY,
    UNIT,
    PlaceData,
    name_at,
    place_data,
    place_for,
    place_of,
)


def test_a_place_has_its_events_split_in_time(data):
    split = data.split
    assert len(data.train) == int((split.part == 0).sum())
    assert split.events.times[split.part == 0].max() < split.events.times[split.part == 2].min()
    assert (data.split.train_counts == 0).any()  # newcomers: there are new users
    assert data.threshold == 20


def test_validation_requests_are_the_events_of_the_validation_test(data):
    """A request has all events of its user before the validation event, and that one as relevant."""
    valid, test = data.valid, data.valid_test
    assert len(valid) == len(test)
    np.testing.assert_array_equal(valid.relevant()[:, 0].numpy(), test.targets)
    np.testing.assert_array_equal(valid.users, test.users)
    np.testing.assert_array_equal(valid.history_lengths(), test.event_numbers - 1)


def test_validation_requests_of_users_are_the_same_events(data):
    requests, test = data.valid_users, data.valid_test
    spans = zip(requests.cuts, requests.stops, strict=True)
    np.testing.assert_array_equal(np.concatenate([np.arange(*one) for one in spans]), test.positions)
    assert (requests.stops - requests.cuts).max() <= 20
    assert (np.diff(requests.users) > 0).all()


def test_validation_is_limited_to_random_users(monkeypatch, data):
    monkeypatch.setattr("shortlist.lab.experiments.two_time_scale.cells.places.VALID_EVENTS", 30)
    few = PlaceData(data.place, data.split, None, data.world)
    assert 30 <= len(few.valid_test) < 50
    assert set(few.valid_test.positions) <= set(data.valid_test.positions)


def test_a_world_with_other_settings_is_another_place():
    place = place_of(UNIT, drift=0.0)
    assert str(place) == "world-unit,drift=0"
    assert place.world.drift == 0
    assert place.settings != place_of(UNIT).settings


def test_seeds_are_other_worlds_and_data_is_kept(place):
    assert place_data(place, 0, None, "cpu") is place_data(place, 0, None, "cpu")
    other = place_data(place, 1, None, "cpu")
    assert other.split.events.fingerprint != place_data(place, 0, None, "cpu").split.events.fingerprint


def test_real_data_needs_a_folder_and_an_unknown_place_is_refused():
    with pytest.raises(ConfigError, match="needs --data"):
        place_data(place_of(MOVIELENS), 0, None)
    with pytest.raises(ConfigError, match=f"expected a place of .*{TINY}"):
        place_of("ml-20m")


def test_an_experiment_at_a_place_has_its_name():
    assert name_at("2ts-table1", MOVIELENS) == "2ts-table1"
    assert name_at("2ts-table1", UNIT) == "2ts-table1-unit"
    assert place_for("2ts-table1-unit", "quick", None, UNIT).name == TINY
    assert place_for("2ts-table1-unit", "full", None, UNIT).name == UNIT
    with pytest.raises(ConfigError, match="2ts-table1: the full profile needs --data"):
        place_for("2ts-table1", "full", None, MOVIELENS)
    with pytest.raises(ConfigError, match="expected the profile quick or full, got 'tiny'"):
        place_for("2ts-table1", "tiny", None, MOVIELENS)
