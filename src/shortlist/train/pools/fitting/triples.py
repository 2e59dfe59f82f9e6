"""Examples of outcomes: a context, an item and its reward."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from shortlist.errors import DataError


@dataclass(frozen=True, eq=False)
class Triples:
    """T examples; contexts that several examples share are stored once."""

    contexts: Tensor  # [M, d]
    rows: Tensor  # [T] of the contexts
    items: Tensor  # [T]
    rewards: Tensor  # [T]
    weights: Tensor | None = None  # [T]; None: all are 1

    def __post_init__(self) -> None:
        sizes = {"rows": self.rows, "items": self.items, "rewards": self.rewards}
        sizes |= {} if self.weights is None else {"weights": self.weights}
        for name, one in sizes.items():
            if one.shape != self.items.shape or one.ndim != 1:
                raise DataError(f"triples: expected {name} [{len(self.items)}], got {list(one.shape)}")
        if self.contexts.ndim != 2:
            raise DataError(f"triples: expected contexts [M, d], got {list(self.contexts.shape)}")
        for name, one in (("rows", self.rows), ("items", self.items)):
            if one.dtype.is_floating_point or one.dtype == torch.bool:
                raise DataError(f"triples: expected {name} as whole numbers, got {one.dtype}")
        if len(self.rows) and not bool(((self.rows >= 0) & (self.rows < len(self.contexts))).all()):
            raise DataError(
                f"triples: expected rows 0 to {len(self.contexts) - 1} of the contexts, got {int(self.rows.min())} to "
                f"{int(self.rows.max())}"
            )
        _check_finite("contexts", self.contexts)
        _check_finite("rewards", self.rewards)
        if self.weights is not None:
            _check_finite("weights", self.weights)
            if bool((self.weights < 0).any()):
                raise DataError(f"triples: expected weights from 0, got {float(self.weights.min()):g}")

    @classmethod
    def of(cls, contexts: Tensor, items: Tensor, rewards: Tensor, weights: Tensor | None = None) -> Self:
        """Examples of which each has its own context [T, d]."""
        rows = torch.arange(len(contexts), device=contexts.device)
        return cls(contexts, rows, items, rewards, weights)

    def __len__(self) -> int:
        return len(self.items)

    def take(self, at: Tensor) -> Self:
        """The examples at these positions or under this mask."""
        weights = None if self.weights is None else self.weights[at]
        return replace(
            self, rows=self.rows[at], items=self.items[at], rewards=self.rewards[at], weights=weights
        )

    def split(self, share: float, *, seed: int) -> tuple[Self, Self]:
        """A random part without and one with this share of the examples."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(self.rows.device)
        held_out = round(share * len(self))
        return self.take(order[held_out:]), self.take(order[:held_out])

    def to(self, device: torch.device | str) -> Self:
        """The same examples on another device."""
        weights = None if self.weights is None else self.weights.to(device)
        return replace(
            self,
            contexts=self.contexts.to(device),
            rows=self.rows.to(device),
            items=self.items.to(device),
            rewards=self.rewards.to(device),
            weights=weights,
        )

    @property
    def device(self) -> torch.device:
        return self.contexts.device

    def check(self, n_features: int | None, n_items: int) -> None:
        """Refuse examples that do not fit a model."""
        if n_features is not None and self.contexts.shape[1] != n_features:
            raise DataError(
                f"triples: the model reads {n_features} features, the contexts have {self.contexts.shape[1]}"
            )
        if len(self) and not bool(((self.items >= 0) & (self.items < n_items)).all()):
            raise DataError(
                f"triples: expected items 0 to {n_items - 1}, got {int(self.items.min())} to {int(self.items.max())}"
            )


def _check_finite(name: str, values: Tensor) -> None:
    broken = ~values.isfinite()
    if bool(broken.any()):
        row = int(broken.nonzero()[0, 0])
        raise DataError(
            f"triples: {name} must be finite numbers, got {int(broken.sum())} others, the first in row {row}; "
            "fill or leave out these rows"
        )
