"""Worlds of different settings."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import CCF, ONE_GRU
from shortlist.lab.experiments.two_time_scale.drift_sweep import GAIN, two_time_scale_drift


def test_the_gain_of_the_recurrence_is_drawn_by_drift(made_up):
    """Made-up answers gain the same in both worlds: no growth with the drift."""
    places = {place_of(TINY, drift=drift): (CCF, ONE_GRU) for drift in (0.0, 1.6)}
    path = made_up(Plan(places, (0, 1)), {CCF: 0.2, ONE_GRU: 0.25})
    result = two_time_scale_drift(None, "quick", (0, 1), cache_file=path)
    points = [one for one in result.rows if one.metric == GAIN]
    assert [one.x for one in points] == [0.0, 1.6]
    assert all(one.mean == pytest.approx(0.05, abs=0.005) for one in points)
    grows, static = result.claims
    assert grows.estimate == pytest.approx(0)
    assert not grows.holds
    assert not static.holds
