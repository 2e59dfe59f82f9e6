"""The splits of a budget that are compared: fixed ones, learned ones, and ones that know the test users."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shortlist.lab.experiments.components.budget.clusters import cluster_split
from shortlist.lab.experiments.components.budget.trial import NOMINATORS, BudgetTrial
from shortlist.metrics.nomination.coverage import coverage_curves
from shortlist.nominate import Split
from shortlist.nominate.split_gate import SplitGate
from shortlist.train.split.learn import SplitRule

SEGMENTS, GLOBAL = "segments", "global"
KMEANS, GATE, SHARES = "k-means segments", "gate", "shares of the gate"
AUTO, EVEN, PROPORTIONAL = "limits of auto", "even", "proportional"
ORACLE, ORACLE_SEGMENTS = "oracle", "oracle segments"
ALONE = tuple(f"{name} alone" for name in NOMINATORS)
SYSTEMS = (SEGMENTS, GLOBAL, KMEANS, GATE, SHARES, AUTO, EVEN, PROPORTIONAL, *ALONE, ORACLE, ORACLE_SEGMENTS)
OF_AUTO = (60, 60, 60, 20)  # of a tree, two towers, co-visits and popular items


def split_of(system: str, trial: BudgetTrial) -> Split:
    """The `split` stage of a system."""
    if system in ALONE:
        return _fixed(trial, [trial.sizes.budget * (one == system) for one in ALONE])
    return _MAKE[system](trial)


def _learned(trial: BudgetTrial, by: str) -> Split:
    batches = trial.folds.batches(trial.seed)
    return _split(trial, SplitRule(by=by).learned(batches, NOMINATORS, trial.sizes.budget))


def _gated(trial: BudgetTrial) -> Split:
    """The learned limits of all requests, times the gate: what the trainer of `split` makes with by = "gate"."""
    return _learned(trial, "none").renewed(gate=trial.gate)


def _shares(trial: BudgetTrial) -> Split:
    """The budget in proportion to the gate, without learned limits."""
    return _fixed(trial, _scaled(trial.gate.mean.numpy(), trial.sizes.budget), trial.gate)


def _clusters(trial: BudgetTrial) -> Split:
    batches = trial.folds.batches(trial.seed)
    return cluster_split(batches, trial.gate, NOMINATORS, trial.sizes.budget, trial.seed)


def _oracle(trial: BudgetTrial, by: str) -> Split:
    """Fitted on the test users, without a floor or shrinking."""
    rule = SplitRule(by=by, floor=0, shrink=0)
    return _split(trial, rule.learned(trial.test, NOMINATORS, trial.sizes.budget))


def _proportional(trial: BudgetTrial) -> Split:
    """By the recall of each nominator alone, on training requests."""
    solo = coverage_curves(trial.learned_from.rank, trial.sizes.budget)[:, -1]
    return _fixed(trial, _scaled(solo, trial.sizes.budget))


def _scaled(shares: Sequence[float] | np.ndarray[Any, Any], budget: int) -> list[int]:
    """Whole numbers in these proportions, at least 1."""
    part = np.asarray(shares, np.float64) / np.sum(shares)
    return [max(int(one), 1) for one in np.rint(part * budget)]


def _fixed(trial: BudgetTrial, limits: Sequence[int], gate: SplitGate | None = None) -> Split:
    return Split(NOMINATORS, (tuple(limits),), gate=gate, k=trial.sizes.budget)


def _split(trial: BudgetTrial, settings: Mapping[str, Any]) -> Split:
    return Split(**settings, k=trial.sizes.budget)


_MAKE: Mapping[str, Callable[[BudgetTrial], Split]] = {
    SEGMENTS: lambda trial: _learned(trial, "history"),
    GLOBAL: lambda trial: _learned(trial, "none"),
    KMEANS: _clusters,
    GATE: _gated,
    SHARES: _shares,
    AUTO: lambda trial: _fixed(trial, _scaled(OF_AUTO, trial.sizes.budget)),
    EVEN: lambda trial: _fixed(trial, _scaled((1, 1, 1, 1), trial.sizes.budget)),
    PROPORTIONAL: _proportional,
    ORACLE: lambda trial: _oracle(trial, "none"),
    ORACLE_SEGMENTS: lambda trial: _oracle(trial, "history"),
}
