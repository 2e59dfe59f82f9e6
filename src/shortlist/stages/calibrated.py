"""Scores that are probabilities: what every scorer that can be calibrated has."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import without_prefix
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.grammar import Scorer

LEAN = 1e-3  # how much of a probability follows the bare score, so that nothing becomes a tie
FAR = 1e30  # a score further out says no more
PREFIX = "calibration."


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising curve from scores to probabilities, over scores that are scaled: z = (score - mean) / spread.

    Without knots the curve is sigmoid(slope * z + shift) (Platt, 1999); with knots it is straight lines between them,
    and level outside. A thousandth of a probability leans on z itself: a curve that is level or full would else make
    ties. Scores that lie closer together than a float32 can tell probabilities apart may still become equal; they
    never change places.
    """

    line: Tensor  # float64 [4]: mean, spread above 0, slope above 0, shift
    knots: Tensor  # float64 [J], rising
    heights: Tensor  # float64 [J], rising

    def __call__(self, scores: Tensor) -> Tensor:
        """Probabilities [...], float32; what is no number stays as it is."""
        mean, spread, slope, shift = self.line
        z = ((scores.to(torch.float64) - mean) / spread).clamp(-FAR, FAR)
        curve = _along(z, self.knots, self.heights) if len(self.knots) else torch.sigmoid(slope * z + shift)
        lean = 0.5 + 0.5 * z / (1 + z.abs())
        chance = ((1 - LEAN) * curve + LEAN * lean).to(torch.float32)
        return torch.where(torch.isfinite(scores), chance, scores.to(torch.float32))

    def tensors(self) -> dict[str, Tensor]:
        """What it is made of, by the names `of` knows."""
        parts = {"line": self.line, "knots": self.knots, "heights": self.heights}
        return {PREFIX + name: one for name, one in parts.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """The calibration among a stage's tensors, None where it has none."""
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
        rises = shapes and bool((self.line[1:3] > 0).all()) and _rises(self.knots) and _rises(self.heights)
        if not rises or bool((self.heights < 0).any() | (self.heights > 1).any()):
            raise ArtifactError(
                "calibration: expected a rising curve between 0 and 1; the artifact is damaged, make it again"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Calibrated(Scorer):
    """A scorer of candidates one by one, whose scores are probabilities of being wanted once it is calibrated."""

    pointwise: ClassVar[bool] = True  # the score of a candidate does not depend on its rivals

    calibration: Calibration | None = field(default=None, kw_only=True)

    @abstractmethod
    def raw(self, query: Query, found: Candidates) -> Tensor:
        """The scores before any calibration [B, K]."""

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


def _along(z: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    """Straight lines from knot to knot, level outside."""
    if len(knots) == 1:
        return heights.expand(z.shape)
    at = torch.searchsorted(knots, z.contiguous()).clamp(1, len(knots) - 1)
    low, high = knots[at - 1], knots[at]
    share = ((z - low) / (high - low)).clamp(0, 1)
    return torch.lerp(heights[at - 1], heights[at], share)


def _rises(values: Tensor) -> bool:
    return bool((values[1:] > values[:-1]).all())
