"""Boosted trees as plain tensors: whoever grew them, they are read without the library that did."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numba import njit
from torch import Tensor

from shortlist.errors import ArtifactError, DataError

CELLS = 1 << 21  # rows times trees that are walked at a time


@dataclass(frozen=True, eq=False)
class Trees:
    """All nodes of all trees side by side; a leaf is its own child, every other node stands before its children."""

    feature: Tensor  # int64 [M] which feature a node asks for
    threshold: Tensor  # float64 [M] up to it the way leads left
    left: Tensor  # int64 [M]
    right: Tensor  # int64 [M]
    value: Tensor  # float64 [M] what a leaf adds to the score
    roots: Tensor  # int64 [T]

    def __call__(self, features: Tensor) -> Tensor:
        """Scores [...] of features [..., F], float32: one leaf of every tree, summed; what is no number counts as 0."""
        if features.shape[-1] < self.asked:
            raise DataError(
                f"boosted trees: expected {self.asked} features or more, got {features.shape[-1]}; "
                "give them the features they were grown on"
            )
        rows = torch.nan_to_num(features.reshape(-1, features.shape[-1]).double(), nan=0.0)  # [R, F]
        block = max(CELLS // max(len(self.roots), 1), 1)
        parts = [self._sums(some) for some in torch.split(rows, block)]
        return (
            torch.cat(parts).view(features.shape[:-1]).float()
            if parts
            else features.new_zeros(features.shape[:-1])
        )

    def _sums(self, rows: Tensor) -> Tensor:
        if rows.device.type != "cpu":
            return self.stepped(rows)
        nodes = (getattr(self, one.name).contiguous().numpy() for one in fields(self))
        return torch.from_numpy(_walked(rows.detach().contiguous().numpy(), *nodes))

    def stepped(self, rows: Tensor) -> Tensor:
        """The sums [R] of rows [R, F] by torch alone: all rows take a step in all trees together."""
        node = self.roots.expand(len(rows), -1)  # [R, T]
        for _ in range(self.depth):
            asked = rows.gather(1, self.feature[node])
            node = torch.where(asked <= self.threshold[node], self.left[node], self.right[node])
        return self.value[node].sum(1)

    @cached_property
    def depth(self) -> int:
        """The most steps from a root to a leaf."""
        steps, here = 0, self.roots
        while not bool((self.left[here] == here).all()):
            here, steps = torch.unique(torch.cat([self.left[here], self.right[here]])), steps + 1
        return steps

    @cached_property
    def asked(self) -> int:
        """How many features there must be."""
        inner = self.feature[self.left != torch.arange(len(self.left), device=self.left.device)]
        return int(inner.max()) + 1 if len(inner) else 0

    def tensors(self) -> dict[str, Tensor]:
        """What it is made of, by the names `build` knows."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def build(cls, tensors: Mapping[str, Tensor], n_features: int) -> Self:
        """The trees back from their tensors, after a look at whether every way ends at a leaf."""
        try:
            made = cls(**{one.name: tensors[one.name] for one in fields(cls)})
        except KeyError as error:
            raise ArtifactError(
                f"boosted trees: their tensors lack {error}; make the artifact again"
            ) from error
        if not made._sound(n_features):
            raise ArtifactError("boosted trees: a node leads nowhere; the artifact is damaged, make it again")
        return made

    def _sound(self, n_features: int) -> bool:
        count, whole = self.value.numel(), (self.feature, self.left, self.right, self.roots)
        nodes = (self.feature, self.threshold, self.left, self.right, self.value)
        if any(one.shape != (count,) for one in nodes) or any(one.dtype != torch.int64 for one in whole):
            return False
        if any(
            one.dtype != torch.float64 or not bool(one.isfinite().all())
            for one in (self.threshold, self.value)
        ):
            return False
        here = torch.arange(count)
        leaf = (self.left == here) & (self.right == here)
        down = (self.left > here) & (self.right > here) & (self.left < count) & (self.right < count)
        asked = (self.feature >= 0) & (self.feature < max(n_features, 1))
        rooted = self.roots.dim() == 1 and bool(((self.roots >= 0) & (self.roots < count)).all())
        return rooted and bool((asked & (leaf | down)).all())


@njit(cache=True, nogil=True, error_model="numpy")
def _walked(rows, feature, threshold, left, right, value, roots):  # type: ignore[no-untyped-def]
    """One tree after the other, so that its nodes stay in the cache; each row ends where its own way does."""
    sums = np.zeros(len(rows))
    for root in roots:
        for row in range(len(rows)):
            at = root
            while left[at] != at:
                at = left[at] if rows[row, feature[at]] <= threshold[at] else right[at]
            sums[row] += value[at]
    return sums
