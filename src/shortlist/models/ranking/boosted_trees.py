"""Gradient-boosted trees as plain tensors, scored without the library that trained them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numba import njit
from torch import Tensor

from shortlist.errors import ArtifactError, DataError

CELLS = 1 << 21  # rows times trees per block


@dataclass(frozen=True, eq=False)
class Trees:
    """All nodes of all trees in one array; a leaf is its own child, every other node precedes its children."""

    feature: Tensor  # int64 [M] feature that a node splits on
    threshold: Tensor  # float64 [M] left if feature <= threshold
    left: Tensor  # int64 [M]
    right: Tensor  # int64 [M]
    value: Tensor  # float64 [M] leaf value
    roots: Tensor  # int64 [T]
    nan_left: Tensor  # bool [M] whether a feature that is NaN goes left

    def __call__(self, features: Tensor) -> Tensor:
        """Scores [...] of features [..., F], float32: the sum of one leaf per tree."""
        if features.shape[-1] < self.n_features:
            raise DataError(
                f"boosted trees: expected {self.n_features} features or more, got {features.shape[-1]}; "
                "pass the features of their training"
            )
        rows = features.reshape(-1, features.shape[-1]).double()  # [R, F]
        block = max(CELLS // max(len(self.roots), 1), 1)
        parts = [self._sums(part) for part in torch.split(rows, block)]
        return (
            torch.cat(parts).view(features.shape[:-1]).float()
            if parts
            else features.new_zeros(features.shape[:-1])
        )

    def _sums(self, rows: Tensor) -> Tensor:
        if rows.device.type != "cpu":
            return self.torch_sums(rows)
        nodes = (getattr(self, one.name).contiguous().numpy() for one in fields(self))
        return torch.from_numpy(_numba_sums(rows.detach().contiguous().numpy(), *nodes))

    def torch_sums(self, rows: Tensor) -> Tensor:
        """The sums [R] of rows [R, F] in torch: all rows descend one level in all trees per step."""
        node = self.roots.expand(len(rows), -1)  # [R, T]
        for _ in range(self.depth):
            value = rows.gather(1, self.feature[node])
            goes_left = torch.where(value.isnan(), self.nan_left[node], value <= self.threshold[node])
            node = torch.where(goes_left, self.left[node], self.right[node])
        return self.value[node].sum(1)

    @cached_property
    def depth(self) -> int:
        """The largest depth of a leaf."""
        steps, here = 0, self.roots
        while not bool((self.left[here] == here).all()):
            here, steps = torch.unique(torch.cat([self.left[here], self.right[here]])), steps + 1
        return steps

    @cached_property
    def n_features(self) -> int:
        """The least number of features."""
        inner = self.feature[self.left != torch.arange(len(self.left), device=self.left.device)]
        return int(inner.max()) + 1 if len(inner) else 0

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by the names that `build` expects."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def build(cls, tensors: Mapping[str, Tensor], n_features: int, nan_is_0: bool = False) -> Self:
        """Rebuild the trees from their tensors; refuses nodes that do not lead to a leaf.

        Trees of bundles before version 0.4.0 have no `nan_left`: with `nan_is_0`, NaN counts as 0.
        """
        if nan_is_0 and "threshold" in tensors:
            tensors = {**tensors, "nan_left": tensors["threshold"] >= 0}
        try:
            made = cls(**{one.name: tensors[one.name] for one in fields(cls)})
        except KeyError as error:
            raise ArtifactError(
                f"boosted trees: tensor {error} is missing; make the artifact again"
            ) from error
        if not made._valid(n_features):
            raise ArtifactError(
                "boosted trees: a node has an invalid child; the artifact is damaged, make it again"
            )
        return made

    def _valid(self, n_features: int) -> bool:
        count, whole = self.value.numel(), (self.feature, self.left, self.right, self.roots)
        nodes = (self.feature, self.threshold, self.left, self.right, self.value, self.nan_left)
        if any(one.shape != (count,) for one in nodes) or any(one.dtype != torch.int64 for one in whole):
            return False
        if any(
            one.dtype != torch.float64 or not bool(one.isfinite().all())
            for one in (self.threshold, self.value)
        ):
            return False
        if self.nan_left.dtype != torch.bool:
            return False
        here = torch.arange(count)
        leaf = (self.left == here) & (self.right == here)
        down = (self.left > here) & (self.right > here) & (self.left < count) & (self.right < count)
        known = (self.feature >= 0) & (self.feature < max(n_features, 1))
        rooted = self.roots.dim() == 1 and bool(((self.roots >= 0) & (self.roots < count)).all())
        return rooted and bool((known & (leaf | down)).all())


@njit(cache=True, nogil=True, error_model="numpy")
def _numba_sums(rows, feature, threshold, left, right, value, roots, nan_left):  # type: ignore[no-untyped-def]
    """Tree by tree, so that the nodes of a tree stay in the cache."""
    sums = np.zeros(len(rows))
    for root in roots:
        for row in range(len(rows)):
            at = root
            while left[at] != at:
                one = rows[row, feature[at]]
                goes_left = one <= threshold[at] or (nan_left[at] and np.isnan(one))
                at = left[at] if goes_left else right[at]
            sums[row] += value[at]
    return sums
