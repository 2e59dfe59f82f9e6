"""Precision and recall of the best labels of each row, and the highest values they can have."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SlateQuality:
    """Precision and recall of every row [..., R]; both are 0 for a row without labels."""

    precision: Tensor
    recall: Tensor

    @property
    def means(self) -> tuple[Tensor, Tensor]:
        """The means over rows [...]."""
        return self.precision.mean(-1), self.recall.mean(-1)


def slate_quality(scores: Tensor, labels: Tensor, k: int = 5) -> SlateQuality:
    """The quality of the k labels with the highest scores [..., R, L], where `labels` [..., R, L] are true."""
    best = scores.topk(min(k, scores.shape[-1]), dim=-1).indices
    hits = labels.expand(scores.shape).gather(-1, best).sum(-1).to(torch.float32)
    return SlateQuality(hits / k, hits / labels.sum(-1).clamp(min=1))


def best_quality(labels: Tensor, k: int = 5) -> SlateQuality:
    """The quality of a slate that has as many true labels as possible."""
    return slate_quality(labels.to(torch.float32), labels, k)
