"""Calibrated scores are probabilities in the same order."""

from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.stages.calibrated import TIE_BREAK, Calibrated, Calibration
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, found, query_of

NOTHING = torch.empty(0, dtype=torch.float64)


def logistic(scale: float = 1.0, shift: float = 0.0) -> Calibration:
    return Calibration(torch.tensor([0.0, 1.0, scale, shift], dtype=torch.float64), NOTHING, NOTHING)


def piecewise(knots: list[float], heights: list[float]) -> Calibration:
    line = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    return Calibration(line, *(torch.tensor(one, dtype=torch.float64) for one in (knots, heights)))


@dataclass(frozen=True, eq=False, repr=False)
class Row(Calibrated):
    """A third of the item's row."""

    def raw(self, query: Query, found: Candidates) -> torch.Tensor:
        return found.items / 3.0


def test_curve_without_knots_is_logistic():
    scores = torch.tensor([-3.0, 0.0, 0.5, 2.0])
    assert torch.allclose(logistic(2.0, -1.0)(scores), torch.sigmoid(2 * scores - 1), atol=TIE_BREAK)


def test_curve_with_knots_is_piecewise_linear_and_nearly_constant_outside():
    probabilities = piecewise([0.0, 1.0, 3.0], [0.1, 0.2, 0.9])(
        torch.tensor([-9.0, 0.0, 0.5, 1.0, 2.0, 3.0, 50.0])
    )
    expected = torch.tensor([0.1, 0.1, 0.15, 0.2, 0.55, 0.9, 0.9])
    assert torch.allclose(probabilities, expected, atol=TIE_BREAK)
    assert torch.allclose(
        piecewise([2.0], [0.3])(torch.tensor([-1.0, 7.0])), torch.tensor(0.3), atol=TIE_BREAK
    )


@pytest.mark.parametrize(
    "curve", [logistic(), logistic(40.0, 3.0), logistic(1e-3, -5.0), piecewise([-1, 0, 2], [0.0, 0.4, 1.0])]
)
def test_order_is_kept_where_curves_are_constant(curve):
    scores = torch.linspace(-6, 6, 500)
    probabilities = curve(scores)
    assert bool((probabilities[1:] > probabilities[:-1]).all())
    assert bool(((probabilities >= 0) & (probabilities <= 1)).all())
    close = torch.randn(2000, generator=torch.Generator().manual_seed(0)).sort().values
    assert bool((curve(close)[1:] >= curve(close)[:-1]).all())


def test_scores_that_are_not_finite_stay_as_they_are():
    scores = logistic()(torch.tensor([torch.nan, torch.inf, -torch.inf, 3e38, -3e38]))
    assert torch.isnan(scores[0])
    assert scores[1:3].tolist() == [torch.inf, -torch.inf]
    assert scores[3] > 0.99
    assert scores[4] < 0.01


def test_scores_are_probabilities_if_calibrated():
    bare, query, candidates = Row(), query_of([1]), found([0.0, None, 0.0])
    made = Row(calibration=logistic())
    assert not bare.probabilities
    assert made.probabilities
    assert made.pointwise
    assert torch.equal(bare.score(query, candidates), bare.raw(query, candidates))
    assert torch.equal(made.score(query, candidates), logistic()(bare.raw(query, candidates)))
    assert bare.tensors() == {}
    assert bare.settings() == made.settings() == {"name": ""}
    check_stage(made, N_ITEMS)


@pytest.mark.parametrize("curve", [logistic(2.0, 1.0), piecewise([0.0, 1.0], [0.25, 0.5])])
def test_calibration_is_the_same_when_rebuilt(curve):
    scores = torch.randn(50, generator=torch.Generator().manual_seed(0))
    rebuilt = Calibration.of({**curve.tensors(), "model.weight": scores})
    assert rebuilt is not None
    assert torch.equal(rebuilt(scores), curve(scores))
    assert Calibration.of({"model.weight": scores}) is None


@pytest.mark.parametrize(
    "damaged",
    [
        logistic(-1.0).tensors(),
        logistic(0.0).tensors(),
        logistic().tensors() | {"calibration.line": torch.tensor([0.0, -1.0, 1.0, 0.0])},
        piecewise([1.0, 0.0], [0.1, 0.2]).tensors(),
        piecewise([0.0, 1.0], [0.2, 0.1]).tensors(),
        piecewise([0.0, 1.0], [0.2, 1.1]).tensors(),
        piecewise([0.0, 1.0], [0.2]).tensors(),
        logistic().tensors() | {"calibration.line": torch.ones(3)},
        logistic().tensors() | {"calibration.line": torch.ones(4, dtype=torch.bool)},
        logistic().tensors() | {"calibration.line": torch.tensor([torch.nan, 1, 1, 0], dtype=torch.float64)},
        piecewise([0.0, 1.0], [0.2, 0.3]).tensors()
        | {"calibration.heights": torch.tensor([0.2, 0.3]).half()},
    ],
)
def test_curve_that_does_not_increase_is_refused(damaged):
    with pytest.raises(ArtifactError, match="expected an increasing curve between 0 and 1"):
        Calibration.of(damaged)


def test_incomplete_calibration_is_refused():
    with pytest.raises(ArtifactError, match="expected line, knots and heights, got line"):
        Calibration.of({"calibration.line": torch.ones(2)})
