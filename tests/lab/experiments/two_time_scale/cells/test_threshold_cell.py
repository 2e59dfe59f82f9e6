"""Threshold curves as answers of cells."""

import numpy as np

from shortlist.lab.experiments.two_time_scale.cells.state_cell import THRESHOLD, StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import ONE_GRU, SYSTEMS
from shortlist.lab.experiments.two_time_scale.cells.threshold_cell import read_curve, run_threshold_cell


def test_a_curve_is_read_as_it_was_measured(place):
    """After 0 events the own vector is the mean one; every user has a loss of each kind."""
    tensor, facts = run_threshold_cell(StateCell(place, SYSTEMS[ONE_GRU], 0, kind=THRESHOLD), None, "cpu")
    curve = read_curve(tensor, facts)
    assert [one.t for one in curve.losses] == facts["t"]
    assert len(curve.halves) == len(facts["halves"])
    first = curve.losses[0]
    assert first.t == 0
    np.testing.assert_allclose(first.own, first.mean, rtol=1e-4)
    assert first.recurrence is not None
    assert len(first.recurrence) == len(first.own) >= 30
    assert np.isfinite(first.recurrence).all()
