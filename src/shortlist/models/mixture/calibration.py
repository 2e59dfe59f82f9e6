"""Calibration of a score to the scale of outcomes."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Calibration:
    """A piecewise linear map from scores to mean outcomes; beyond the ends, the lines at the ends go on by `slope`.

    An affine map has one knot and a slope. `absent` is the mean outcome where there is no score.
    """

    scores: tuple[float, ...] = (0.0,)
    outcomes: tuple[float, ...] = (0.0,)
    slope: float = 1.0
    absent: float = 0.0

    def __call__(self, scores: Tensor) -> Tensor:
        """Outcomes of scores of any shape; NaN and infinite scores count as none."""
        knots = torch.tensor(self.scores, dtype=scores.dtype, device=scores.device)
        values = torch.tensor(self.outcomes, dtype=scores.dtype, device=scores.device)
        known = scores.isfinite()
        clean = scores.masked_fill(~known, self.scores[0])
        inside = clean.clamp(self.scores[0], self.scores[-1])
        result = _interpolated(inside, knots, values) + self.slope * (clean - inside)
        return torch.where(known, result, torch.full_like(result, self.absent))


def _interpolated(at: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    if len(knots) == 1:
        return values.expand(at.shape)
    right = torch.searchsorted(knots, at.contiguous()).clamp(1, len(knots) - 1)
    step = (at - knots[right - 1]) / (knots[right] - knots[right - 1])
    return values[right - 1] + step * (values[right] - values[right - 1])
