"""Scorers whose scores can be calibrated to probabilities."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.grammar import Scorer

TIE_BREAK = 1e-3  # share of a probability that follows the raw score, so that a level curve makes no ties
FAR = 1e30  # scaled scores are clipped to this
PREFIX = "calibration."


@dataclass(frozen=True, eq=False)
class Calibration:
    """An increasing curve from scores to probabilities, over standardised scores z = (score - mean) / std.

    Without knots the curve is sigmoid(slope * z + shift) (Platt, 1999); with knots it is piecewise linear between them
    and constant outside. A thousandth of a probability follows z itself: constant parts of the curve would otherwise
    make ties. Scores whose probabilities differ by less than float32 resolves may become equal; they never swap.
    """

    line: Tensor  # float64 [4]: mean, std above 0, slope above 0, shift
    knots: Tensor  # float64 [J], increasing
    heights: Tensor  # float64 [J], increasing

    def __call__(self, scores: Tensor) -> Tensor:
        """Probabilities [...], float32; NaN and infinite scores stay as they are."""
        mean, std, slope, shift = self.line
        z = ((scores.to(torch.float64) - mean) / std).clamp(-FAR, FAR)
        curve = (
            _interpolated(z, self.knots, self.heights)
            if len(self.knots)
            else torch.sigmoid(slope * z + shift)
        )
        increasing = 0.5 + 0.5 * z / (1 + z.abs())
        probability = ((1 - TIE_BREAK) * curve + TIE_BREAK * increasing).to(torch.float32)
        return torch.where(torch.isfinite(scores), probability, scores.to(torch.float32))

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by the names that `of` expects."""
        return with_prefix(PREFIX, {"line": self.line, "knots": self.knots, "heights": self.heights})

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """The calibration among a stage's tensors; None where there is none."""
        own = without_prefix(PREFIX, tensors)
        if not own:
            return None
        if set(own) != {"line", "knots", "heights"}:
            raise ArtifactError(
                f"calibration: expected line, knots and heights, got {', '.join(sorted(own))}; "
                "make the artifact again"
            )
        made = cls(own["line"], own["knots"], own["heights"])
        made._check()
        return made

    def _check(self) -> None:
        exact = all(one.dtype == torch.float64 for one in self.tensors().values())
        shapes = self.line.shape == (4,) and self.knots.dim() == 1 and self.knots.shape == self.heights.shape
        shapes = exact and shapes and bool(self.line.isfinite().all())
        sound = shapes and bool((self.line[1:3] > 0).all()) and _increases(self.knots, self.heights)
        if not sound or bool((self.heights < 0).any() | (self.heights > 1).any()):
            raise ArtifactError(
                "calibration: expected an increasing curve between 0 and 1; the artifact is damaged, make it again"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Calibrated(Scorer):
    """A pointwise scorer; once calibrated, its scores are probabilities that the candidate is relevant."""

    pointwise: ClassVar[bool] = True  # the score of a candidate does not depend on other candidates

    calibration: Calibration | None = field(default=None, kw_only=True)

    @abstractmethod
    def raw(self, query: Query, found: Candidates) -> Tensor:
        """The scores before calibration [B, K]."""

    @property
    def probabilities(self) -> bool:
        """Whether the scores are probabilities."""
        return self.calibration is not None

    @torch.no_grad()
    def score(self, query: Query, found: Candidates) -> Tensor:
        raw = self.raw(query, found)
        return raw if self.calibration is None else self.calibration(raw)

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.calibration is None else self.calibration.tensors()


def _interpolated(z: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    """Piecewise linear between knots, constant outside."""
    if len(knots) == 1:
        return heights.expand(z.shape)
    at = torch.searchsorted(knots, z.contiguous()).clamp(1, len(knots) - 1)
    low, high = knots[at - 1], knots[at]
    share = ((z - low) / (high - low)).clamp(0, 1)
    return torch.lerp(heights[at - 1], heights[at], share)


def _increases(*series: Tensor) -> bool:
    return all(bool((values[1:] > values[:-1]).all()) for values in series)
