"""Rows of features with the labels that are true for them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import DataError

MOST = 5  # labels of `top_share`


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Features [R, D] and labels [R, L], true or false; the labels are the items of a recommender."""

    features: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        fits = self.features.ndim == self.labels.ndim == 2 and len(self.features) == len(self.labels) > 0
        if not fits or self.labels.dtype != torch.bool:
            raise DataError(
                "label table: expected features [rows, width] and labels [rows, labels] of true and false, got "
                f"{tuple(self.features.shape)} and {tuple(self.labels.shape)} {self.labels.dtype}"
            )
        if not bool(torch.isfinite(self.features).all()):
            raise DataError("label table: expected finite features; fill or drop the others")

    def __len__(self) -> int:
        return len(self.features)

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_labels(self) -> int:
        return int(self.labels.shape[1])

    @property
    def popularity(self) -> Tensor:
        """The share of rows with each label [L]."""
        return self.labels.to(torch.float64).mean(0)

    @property
    def positivity(self) -> float:
        """The share of (row, label) pairs that are true."""
        return float(self.popularity.mean())

    @property
    def empty(self) -> float:
        """The share of rows without a label."""
        return float((~self.labels.any(1)).double().mean())

    @property
    def top_share(self) -> float:
        """The share of all true pairs that belongs to the five most frequent labels."""
        rates = self.popularity.sort(descending=True).values
        return float(rates[:MOST].sum() / rates.sum())

    @property
    def prototypes(self) -> Tensor:
        """For each label the mean features of its rows minus those of all rows, of root mean square 1 [L, D]."""
        counts = self.labels.sum(0).clamp(min=1)[:, None]
        means = self.labels.to(self.features).T @ self.features / counts - self.features.mean(0)
        known = self.labels.any(0)[:, None]
        scale = means.square().mean(1, keepdim=True).sqrt().clamp(min=torch.finfo(means.dtype).tiny)
        return torch.where(known, means / scale, 0.0)

    def of(self, rows: Tensor | slice) -> "LabelTable":
        """Some of the rows."""
        return LabelTable(self.features[rows], self.labels[rows])
