"""The splits of a budget that are compared: fixed ones, learned ones, and ones that know the test users."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shortlist.lab.experiments.components.budget_trial import NOMINATORS, BudgetTrial
from shortlist.metrics.nomination.coverage import coverage_curves
from shortlist.train.split.learn import SplitRule

SEGMENTS, GLOBAL = "segments", "global"
AUTO, EVEN, PROPORTIONAL = "limits of auto", "even", "proportional"
ORACLE, ORACLE_SEGMENTS = "oracle", "oracle segments"
ALONE = tuple(f"{name} alone" for name in NOMINATORS)
SYSTEMS = (SEGMENTS, GLOBAL, AUTO, EVEN, PROPORTIONAL, *ALONE, ORACLE, ORACLE_SEGMENTS)
OF_AUTO = (60, 60, 60, 20)  # of a tree, two towers, co-visits and popular items

Limits = Mapping[str, Any]


def limits_of(system: str, trial: BudgetTrial) -> Limits:
    """The settings of the `split` stage of a system."""
    if system in ALONE:
        return _fixed([trial.sizes.budget * (one == system) for one in ALONE])
    return _MAKE[system](trial)


def _learned(trial: BudgetTrial, by: str) -> Limits:
    batches = trial.folds.batches(trial.seed)
    return SplitRule(by=by).learned(batches, NOMINATORS, trial.sizes.budget)


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


_MAKE: Mapping[str, Callable[[BudgetTrial], Limits]] = {
    SEGMENTS: lambda trial: _learned(trial, "history"),
    GLOBAL: lambda trial: _learned(trial, "none"),
    AUTO: lambda trial: _fixed(_scaled(OF_AUTO, trial.sizes.budget)),
    EVEN: lambda trial: _fixed(_scaled((1, 1, 1, 1), trial.sizes.budget)),
    PROPORTIONAL: _proportional,
    ORACLE: lambda trial: _oracle(trial, "none"),
    ORACLE_SEGMENTS: lambda trial: _oracle(trial, "history"),
}
