"""The metric after every epoch."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.curve_cell import run_curve_cell
from shortlist.lab.experiments.two_time_scale.cells.state_cell import CURVE, StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    GRU,
    SINGLE_STAGE,
    SYSTEMS,
)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        (CCF, ["ccf"]),
        (GRU, ["gru4rec"]),
        (ANCHORED, ["ccf", "two-time-scale new", "two-time-scale active"]),
        (SINGLE_STAGE, ["two-time-scale one"]),
    ],
)
def test_every_epoch_of_every_stage_is_a_point(place, name, stages):
    tensor, facts = run_curve_cell(StateCell(place, SYSTEMS[name], 0, kind=CURVE), None, "cpu")
    points = facts["points"]
    assert not tensor.numel()
    assert [point["stage"] for point in points] == [
        stage for stage in stages for _ in range(place.budget.epochs)
    ]
    seconds = [point["seconds"] for point in points]
    assert seconds == sorted(seconds)
    assert all(0 < point["value"] < 1 for point in points)
    assert list(facts["seconds by stage"]) == stages
