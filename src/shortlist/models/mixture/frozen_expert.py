"""Frozen experts: any score, on the scale of outcomes, that the gate weighs but training does not change."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.models.mixture.calibration import Calibration
from shortlist.models.mixture.experts import Experts

Score = Callable[[Tensor, Tensor], Tensor]
"""Contexts [B, d] and items [B, K] -> scores [B, K], NaN where the nominator cannot return the item."""


class FrozenExpert(Experts):
    """One expert from a score of contexts and items; without a score it predicts the mean outcome of such items."""

    n_experts = 1

    def __init__(self, score: Score, n_items: int, calibration: Calibration) -> None:
        super().__init__()
        self.score, self.n_items, self.calibration = score, n_items, calibration

    @torch.no_grad()
    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        wide = items if items.ndim == 2 else items[:, None]
        scores = self.score(contexts, wide)
        if scores.shape != wide.shape:
            raise DataError(f"frozen expert: expected scores {list(wide.shape)}, got {list(scores.shape)}")
        return self.calibration(scores.to(contexts.dtype)).view(*items.shape, 1)

    def all(self, contexts: Tensor) -> Tensor:
        items = torch.arange(self.n_items, device=contexts.device).expand(len(contexts), -1)
        result: Tensor = self(contexts, items)
        return result


class FrozenTable(Experts):
    """N experts from scores of items alone, such as popularity; stored as the outcomes that they predict."""

    outcomes: Tensor  # [A, N]

    def __init__(self, outcomes: Tensor) -> None:
        super().__init__()
        if outcomes.ndim != 2 or 0 in outcomes.shape:
            raise DataError(f"frozen table: expected outcomes of items [A, N], got {list(outcomes.shape)}")
        self.n_items, self.n_experts = outcomes.shape
        self.register_buffer("outcomes", outcomes)

    @classmethod
    def of(cls, scores: Tensor, calibration: Calibration) -> Self:
        """One expert from a score for every item [A]."""
        return cls(calibration(scores)[:, None])

    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        return self.outcomes[items].to(contexts.dtype)

    def all(self, contexts: Tensor) -> Tensor:
        return self.outcomes.to(contexts.dtype).expand(len(contexts), -1, -1)

    def settings(self) -> dict[str, Any]:
        """The plain values that `build` needs beside the weights."""
        return {"n_items": self.n_items, "n_experts": self.n_experts}

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """A table of these sizes, for weights that are loaded afterwards."""
        return cls(torch.zeros(settings["n_items"], settings["n_experts"]))
