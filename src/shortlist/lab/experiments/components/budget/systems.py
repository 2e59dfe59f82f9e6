"""The splits of a budget that are compared: fixed ones, learned ones, and ones that know the test users."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shortlist.lab.experiments.components.budget.contextual import (
    ContextualSplit,
    cluster_split,
    gate_split,
)
from shortlist.lab.experiments.components.budget.trial import NOMINATORS, BudgetTrial, Limits
from shortlist.metrics.nomination.coverage import coverage_curves
from shortlist.train.split.learn import SplitRule

SEGMENTS, GLOBAL = "segments", "global"
AUTO, EVEN, PROPORTIONAL = "limits of auto", "even", "proportional"
ORACLE, ORACLE_SEGMENTS = "oracle", "oracle segments"
ALONE = tuple(f"{name} alone" for name in NOMINATORS)
KMEANS, GATE, TILTED = "k-means segments", "gate", "global times gate"
SYSTEMS = (SEGMENTS, GLOBAL, KMEANS, GATE, TILTED, AUTO, EVEN, PROPORTIONAL, *ALONE, ORACLE, ORACLE_SEGMENTS)
OF_AUTO = (60, 60, 60, 20)  # of a tree, two towers, co-visits and popular items


def limits_of(system: str, trial: BudgetTrial) -> Limits | ContextualSplit:
    """The settings of the `split` stage of a system, or its stage."""
    if system in ALONE:
        return _fixed([trial.sizes.budget * (one == system) for one in ALONE])
    return _MAKE[system](trial)


def _learned(trial: BudgetTrial, by: str) -> Limits:
    batches = trial.folds.batches(trial.seed)
    return SplitRule(by=by).learned(batches, NOMINATORS, trial.sizes.budget)


def _gate(trial: BudgetTrial, learned: Sequence[int] | None = None) -> ContextualSplit:
    batches = trial.folds.batches(trial.seed)
    return gate_split(batches, trial.features, NOMINATORS, trial.sizes.budget, trial.seed, learned)


def _clusters(trial: BudgetTrial) -> ContextualSplit:
    batches = trial.folds.batches(trial.seed)
    return cluster_split(batches, trial.features, NOMINATORS, trial.sizes.budget, trial.seed)


def _oracle(trial: BudgetTrial, by: str) -> Limits:
    """Fitted on the test users, without a floor or shrinking."""
    return SplitRule(by=by, floor=0, shrink=0).learned(trial.test, NOMINATORS, trial.sizes.budget)


def _proportional(trial: BudgetTrial) -> Limits:
    """By the recall of each nominator alone, on training requests."""
    solo = coverage_curves(trial.learned_from.rank, trial.sizes.budget)[:, -1]
    return _fixed(_scaled(solo, trial.sizes.budget))


def _scaled(shares: Sequence[float] | np.ndarray[Any, Any], budget: int) -> list[int]:
    """Whole numbers in these proportions, at least 1."""
    part = np.asarray(shares, np.float64) / np.sum(shares)
    return [max(int(one), 1) for one in np.rint(part * budget)]


def _fixed(limits: Sequence[int]) -> Limits:
    return {"nominators": NOMINATORS, "limits": (tuple(limits),), "history": ()}


_MAKE: Mapping[str, Callable[[BudgetTrial], Limits | ContextualSplit]] = {
    SEGMENTS: lambda trial: _learned(trial, "history"),
    GLOBAL: lambda trial: _learned(trial, "none"),
    KMEANS: _clusters,
    GATE: _gate,
    TILTED: lambda trial: _gate(trial, _learned(trial, "none")["limits"][0]),
    AUTO: lambda trial: _fixed(_scaled(OF_AUTO, trial.sizes.budget)),
    EVEN: lambda trial: _fixed(_scaled((1, 1, 1, 1), trial.sizes.budget)),
    PROPORTIONAL: _proportional,
    ORACLE: lambda trial: _oracle(trial, "none"),
    ORACLE_SEGMENTS: lambda trial: _oracle(trial, "history"),
}
