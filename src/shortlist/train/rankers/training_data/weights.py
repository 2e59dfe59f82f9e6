"""Weights of training targets by whether they are retrieved, and whether training on the retrieved ones is safe.

The weight of an instance is w = lambda + (1 - lambda) a / mean(a), where `a` is whether, or how likely, its target is
retrieved. With lambda = 1 all instances have equal weight; with lambda = 0 and a in {0, 1} only retrieved targets have
weight, which is importance weighting with the exact density ratio (two-stage bounds paper, section 4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.logistic import logistic_regression
from shortlist.pipeline.about import RetrievedTargets

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_WEIGHT = 20.0
RIDGE = 1e-3


class NothingRetrievedError(DataError):
    """No target of a ranker's training requests is among its candidates."""


@dataclass(frozen=True, eq=False)
class Weights:
    """A weight for every instance, mean 1; `clipped_share` is the share whose weight was clipped."""

    values: Floats  # [m]
    clipped_share: float

    @property
    def effective_share(self) -> float:
        """Effective sample size over the number of instances."""
        return effective_share(self.values)


def weigh(retrieved: NDArray[Any], blend: float, most: float = MAX_WEIGHT) -> Weights:
    """Weights from flags or probabilities [m] that a target is retrieved; `blend` is lambda."""
    if not 0 <= blend <= 1:
        raise ConfigError(f"weights: lambda must lie between 0 and 1, got {blend}")
    retrieved = np.asarray(retrieved, np.float64)
    if not len(retrieved) or (blend < 1 and not retrieved.any()):
        raise NothingRetrievedError(
            f"weights: none of {len(retrieved)} targets was retrieved, so there is nothing to train on; "
            "use more candidates, a better nominator, or mode = 'original'"
        )
    raw = np.ones_like(retrieved) if blend == 1 else blend + (1 - blend) * retrieved / retrieved.mean()
    clipped = np.minimum(raw, most)
    return Weights(clipped / clipped.mean(), float((raw > most).mean()))


def effective_share(values: NDArray[Any]) -> float:
    """Effective sample size over m: (sum w)^2 / (m sum w^2); 0 where all weights are 0."""
    total = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * total) if total else 0.0


def expected_share(recall: float, blend: float) -> float:
    """`effective_share` of flags with this recall: 1 / (l^2 + 2 l (1 - l) + (1 - l)^2 / R)."""
    return 1 / (blend**2 + 2 * blend * (1 - blend) + (1 - blend) ** 2 / recall)


def retrieval_probability(retrieved: Flags, features: Floats) -> Floats:
    """The probability that each target is retrieved [m], by logistic regression on its features [m, F].

    A smooth version of the flags: a target that was narrowly missed keeps a part of its weight.
    """
    if retrieved.all() or not retrieved.any():
        return retrieved.astype(np.float64)
    std = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(std > 0, std, 1.0)
    design = np.column_stack([np.ones(len(scaled)), scaled])
    coefficients = logistic_regression(design, retrieved.astype(np.float64), ridge=RIDGE)
    return np.asarray(1 / (1 + np.exp(-design @ coefficients)), np.float64)


@dataclass(frozen=True)
class Guard:
    """Training on retrieved targets helps only where enough is retrieved (the paper: recall above about 10 %).

    Recall is the share of single targets among the candidates, on instances that the nominators were not trained on.
    `per_item` retrieved instances should be left for every target item, and `effective_share` of all instances.
    """

    recall: float = 0.10
    per_item: float = 20.0
    effective_share: float = 0.05

    def check(
        self, retrieved: Flags, items: NDArray[Any], weights: Weights | None = None
    ) -> RetrievedTargets:
        """Check flags [m] of instances with these target items [m]; without weights, the flags are the weights."""
        count, kept = len(retrieved), int(retrieved.sum())
        targets = np.unique(items)
        missing = np.setdiff1d(targets, items[retrieved])
        weights = Weights(retrieved.astype(np.float64), 0.0) if weights is None else weights
        recall = kept / count if count else 0.0
        reasons = self._reasons(recall, kept, len(targets), weights.effective_share)
        return RetrievedTargets(
            level="refuse" if kept == 0 else "warn" if reasons else "ok",
            recall=recall,
            instances=count,
            retrieved=kept,
            effective_share=weights.effective_share,
            missing_items=len(missing),
            missing_share=float(np.isin(items, missing).mean()) if count else 0.0,
            clipped_share=weights.clipped_share,
            reasons=tuple(reasons),
        )

    def _reasons(self, recall: float, kept: int, items: int, share: float) -> Sequence[str]:
        reasons = []
        if recall < self.recall:
            reasons.append(
                f"only {recall:.1%} of targets are among the candidates; training on retrieved targets is advised from "
                f"about {self.recall:.0%} on"
            )
        if kept < self.per_item * items:
            reasons.append(
                f"{kept:,} retrieved instances are left for {items:,} target items; {self.per_item:g} per item would "
                "be enough"
            )
        if share < self.effective_share:
            reasons.append(
                f"the effective sample size is {share:.1%} of the instances; at least {self.effective_share:.0%} is "
                "recommended"
            )
        return reasons
