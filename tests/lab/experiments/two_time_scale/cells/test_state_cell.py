"""Names and settings of cells."""

from shortlist.lab.experiments.two_time_scale.cells.places import UNIT, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_cell import CURVE, TUNING, StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import CCF, POPULAR, SYSTEMS


def test_a_name_says_where_what_and_the_seed():
    place = place_of(UNIT)
    assert str(StateCell(place, SYSTEMS[CCF], 2)) == "world-unit/ccf/2"
    assert str(StateCell(place, SYSTEMS[CCF], 0, 0.03, TUNING)) == "world-unit/ccf/tuning 0.03/0"
    assert str(StateCell(place, SYSTEMS[CCF], 1, kind=CURVE)) == "world-unit/ccf/curve/1"


def test_settings_have_the_learning_rate_and_no_device():
    place = place_of(UNIT)
    training = StateCell(place, SYSTEMS[CCF], 0, 0.03, TUNING).settings["training"]
    assert training["table_learning_rate"] == 0.03
    assert "device" not in training
    assert "training" not in StateCell(place, SYSTEMS[POPULAR], 0).settings
