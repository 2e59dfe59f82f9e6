"""A small place whose data, first stage and recurrence all tests share."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.places import TINY, Place, PlaceData, place_data, place_of


@pytest.fixture(scope="session")
def place() -> Place:
    return place_of(TINY)


@pytest.fixture(scope="session")
def data(place: Place) -> PlaceData:
    return place_data(place, 0, None, "cpu")
