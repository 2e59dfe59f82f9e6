"""What a full-stage log says about the candidates of training requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Stage, bare, kind_of
from shortlist.train.objectives.relabel import Ladder

NO_STRATUM = -1
REMOVES = ("filter", "selector")  # kinds of stages that only say what stays


@dataclass(frozen=True, eq=False)
class StageOutcomes:
    """The last stage that each logged candidate passed, and its feedback, by slot of the candidate [B, slots]."""

    stage: Tensor  # int64: S
    y: Tensor  # int64: 1, 0, or -1 = not known
    n_stages: int  # T; S = T: served
    inclusion: Tensor | None = None  # float32: probability that the log kept the candidate; None: not known
    passed: int = 1  # stages that the candidates went through so far
    scores: Mapping[int, Tensor] = field(
        default_factory=dict
    )  # float32, NaN = none, of stages by their number

    @property
    def tensors(self) -> tuple[object, ...]:
        """All values, for a fingerprint."""
        return (self.stage, self.y, self.inclusion, *([dict(self.scores)] if self.scores else []))

    def of(self, values: Tensor, found: Candidates) -> Tensor:
        """Values by slot [B, slots] as those of the candidates [B, K]."""
        return values.gather(1, found.slot)

    def strata(self, found: Candidates) -> Tensor:
        """S of each candidate [B, K]; T for negative and T + 1 for positive feedback, -1 where it is not known."""
        stage, y = self.of(self.stage, found), self.of(self.y, found)
        exposed = torch.where(y < 0, NO_STRATUM, self.n_stages + y)
        return torch.where(stage == self.n_stages, exposed, stage)

    def labels(self, found: Candidates, ladder: Ladder) -> Tensor:
        """The label of each candidate [B, K], NaN where the ladder or the feedback has none."""
        values = torch.tensor([*ladder, torch.nan])
        strata = self.strata(found)
        return values[torch.where(strata < 0, len(ladder), strata)]

    @property
    def next_stage(self) -> int | None:
        """The first stage with scores after the one that the candidates go through next, None if there is none."""
        return min((stage for stage in self.scores if stage > self.passed + 1), default=None)

    def from_stage(self, found: Candidates, lowest: int) -> Candidates:
        """The candidates with S of at least `lowest` and no missing feedback."""
        return found.keep(self.strata(found) >= lowest)

    def through(
        self, stage: Callable[[Query, Candidates], Candidates], query: Query, found: Candidates
    ) -> tuple[Candidates, Self]:
        """The candidates that the logged stage passed on, with the scores and columns of this one.

        This stage removes nothing, because the log says what was removed.
        """
        removes = isinstance(stage, Stage) and kind_of(stage) in REMOVES
        inner = bare(stage) if isinstance(stage, Stage) else stage
        scored = found if removes else inner(query, found)
        passed = self.passed + 1
        kept = scored.keep(self.of(self.stage, scored) >= passed)
        return kept, replace(self, passed=passed)
