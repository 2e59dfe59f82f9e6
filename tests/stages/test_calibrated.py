"""Calibrated scores are probabilities, and the order stays what it was."""

from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.stages.calibrated import TIE_BREAK, Calibrated, Calibration
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, found

NOTHING = torch.empty(0, dtype=torch.float64)


def logistic(scale: float = 1.0, shift: float = 0.0) -> Calibration:
    return Calibration(torch.tensor([0.0, 1.0, scale, shift], dtype=torch.float64), NOTHING, NOTHING)


def straight(knots: list[float], heights: list[float]) -> Calibration:
    line = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    return Calibration(line, *(torch.tensor(one, dtype=torch.float64) for one in (knots, heights)))


@dataclass(frozen=True, eq=False, repr=False)
class Row(Calibrated):
    """Scores an item by its row."""

    def raw(self, query: Query, found: Candidates) -> torch.Tensor:
        return found.items / 3.0


def test_the_logistic_curve_is_the_logistic_curve():
    scores = torch.tensor([-3.0, 0.0, 0.5, 2.0])
    assert torch.allclose(logistic(2.0, -1.0)(scores), torch.sigmoid(2 * scores - 1), atol=TIE_BREAK)


def test_between_knots_lies_a_straight_line_and_outside_nothing_changes_much():
    told = straight([0.0, 1.0, 3.0], [0.1, 0.2, 0.9])(torch.tensor([-9.0, 0.0, 0.5, 1.0, 2.0, 3.0, 50.0]))
    wanted = torch.tensor([0.1, 0.1, 0.15, 0.2, 0.55, 0.9, 0.9])
    assert torch.allclose(told, wanted, atol=TIE_BREAK)
    assert torch.allclose(straight([2.0], [0.3])(torch.tensor([-1.0, 7.0])), torch.tensor(0.3), atol=TIE_BREAK)


@pytest.mark.parametrize(
    "curve", [logistic(), logistic(40.0, 3.0), logistic(1e-3, -5.0), straight([-1, 0, 2], [0.0, 0.4, 1.0])]
)
def test_the_order_stays_what_it_was_where_curves_are_level_too(curve):
    scores = torch.linspace(-6, 6, 500)
    chances = curve(scores)
    assert bool((chances[1:] > chances[:-1]).all())
    assert bool(((chances >= 0) & (chances <= 1)).all())
    close = torch.randn(2000, generator=torch.Generator().manual_seed(0)).sort().values
    assert bool((curve(close)[1:] >= curve(close)[:-1]).all())


def test_what_is_no_number_stays_none():
    told = logistic()(torch.tensor([torch.nan, torch.inf, -torch.inf, 3e38, -3e38]))
    assert torch.isnan(told[0])
    assert told[1:3].tolist() == [torch.inf, -torch.inf]
    assert told[3] > 0.99
    assert told[4] < 0.01


def test_a_stage_tells_whether_its_scores_are_probabilities():
    bare, query, field = Row(), asked([1]), found([0.0, None, 0.0])
    made = Row(calibration=logistic())
    assert not bare.probabilities
    assert made.probabilities
    assert made.pointwise
    assert torch.equal(bare.score(query, field), bare.raw(query, field))
    assert torch.equal(made.score(query, field), logistic()(bare.raw(query, field)))
    assert bare.tensors() == {}
    assert bare.settings() == made.settings() == {"name": ""}
    check_stage(made, N_ITEMS)


@pytest.mark.parametrize("curve", [logistic(2.0, 1.0), straight([0.0, 1.0], [0.25, 0.5])])
def test_a_calibration_comes_back_from_its_tensors(curve):
    scores = torch.randn(50, generator=torch.Generator().manual_seed(0))
    back = Calibration.of({**curve.tensors(), "model.weight": scores})
    assert back is not None
    assert torch.equal(back(scores), curve(scores))
    assert Calibration.of({"model.weight": scores}) is None


@pytest.mark.parametrize(
    "damaged",
    [
        logistic(-1.0).tensors(),
        logistic(0.0).tensors(),
        logistic().tensors() | {"calibration.line": torch.tensor([0.0, -1.0, 1.0, 0.0])},
        straight([1.0, 0.0], [0.1, 0.2]).tensors(),
        straight([0.0, 1.0], [0.2, 0.1]).tensors(),
        straight([0.0, 1.0], [0.2, 1.1]).tensors(),
        straight([0.0, 1.0], [0.2]).tensors(),
        logistic().tensors() | {"calibration.line": torch.ones(3)},
        logistic().tensors() | {"calibration.line": torch.ones(4, dtype=torch.bool)},
        logistic().tensors() | {"calibration.line": torch.tensor([torch.nan, 1, 1, 0], dtype=torch.float64)},
        straight([0.0, 1.0], [0.2, 0.3]).tensors() | {"calibration.heights": torch.tensor([0.2, 0.3]).half()},
    ],
)
def test_a_curve_that_does_not_rise_is_refused(damaged):
    with pytest.raises(ArtifactError, match="expected a rising curve between 0 and 1"):
        Calibration.of(damaged)


def test_half_a_calibration_is_refused():
    with pytest.raises(ArtifactError, match="expected line, knots and heights, got line"):
        Calibration.of({"calibration.line": torch.ones(2)})
