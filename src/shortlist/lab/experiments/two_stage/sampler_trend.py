"""Lemma 3 of the DTR paper during training: does the divergence that bounds a sampled loss follow its measured gap?

A binary tree is trained with uniform and with tree-based negatives. At several steps the full softmax loss of every
level is compared with its sampled form, for both samplers: the gap by Monte Carlo, the paper's KL(Q || P), the
corrected KL(Q || P+), and the estimate for many samples. Levels that are used in full have no gap and are left out.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.lab.experiments.cache import empty
from shortlist.lab.experiments.sweeps import Drawn, figure
from shortlist.lab.experiments.trees.branches import NEGATIVES
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.trends import over_seeds
from shortlist.lab.experiments.two_stage.bounds_trend import HIGH, rank_correlation
from shortlist.lab.result import Claim, Row, claim, row
from shortlist.lab.theory.bounds_sampler import LevelGap, sampler_levels
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet

SOURCE = "two_stage.md, E8"
METHODS = {"dtr-u": "uniform", "dtr-t": "tree"}  # training method and its sampler
STEPS = (0, 150, 600, 2400)
QUICK = (0, 5, 20)
INSTANCES = 512
QUANTITIES = ("gap", "kl_plus", "kl", "delta", "loss", "positive")
LABELS = {"kl": "KL(Q || P)", "kl_plus": "KL(Q || P+)", "positive": "share of the positive"}
Points = Sequence[Mapping[str, Any]]  # a level at a step under a sampler, as cached


@figure("bounds-sampler", "steps")
def bounds_sampler(trials: Sequence[Trial]) -> Drawn:
    """Both methods for every seed, measured with both samplers."""
    found = {method: [points_of(trial, method) for trial in trials] for method in METHODS}
    dataset = trials[0].data_setup.name
    return list(_rows(found, dataset)), _claims(found, dataset)


def points_of(trial: Trial, method: str) -> Points:
    """The measurements of a tree during training, or those of the cache."""
    steps = QUICK if trial.data_setup.quick else STEPS
    overrides: dict[str, Any] = {
        "rounds": 1,
        "steps": steps[-1],
        "eval_every": steps[-1],
        "update": "none",
        "levels": "all",
    }
    overrides |= {"scorer": "linear"} if trial.data_setup.quick else {}
    plan = trial.plan(method, **overrides, negatives=trial.data_setup.negatives(NEGATIVES))

    def measure() -> tuple[Tensor, dict[str, Any]]:
        training_set = TreeTrainingSet(trial.split.train)
        training = TreeTraining(plan, training_set, trial.seed, trial.device, trial.progress)
        picked = torch.randperm(len(training.instances), generator=torch.Generator().manual_seed(trial.seed))
        rows = picked[: 64 if trial.data_setup.quick else INSTANCES].to(training.device)
        histories, targets = training.instances.histories(rows), training.instances.targets(rows)
        points = []
        for step in steps:
            index = training.run(step)
            levels = sampler_levels(
                index, histories, targets, plan.negatives, plan.mix, draws=100, seed=trial.seed
            )
            points += [_point(one, step) for one in levels]
        return empty(), {"points": points}

    name = f"{trial.data_setup.name}/bounds-sampler, {method}/{trial.seed}"
    _, facts = trial.cache.get(name, measure, {**asdict(plan), "measured_steps": steps})
    return [one for one in facts["points"] if not one["whole"]]


def _point(level: LevelGap, step: int) -> dict[str, Any]:
    """A level at one step as the cache stores it, with its estimates at the top."""
    values: dict[str, Any] = as_json(level)
    return {**values.pop("estimates"), **values, "step": step}


def _rows(found: Mapping[str, Sequence[Points]], dataset: str) -> Iterator[Row]:
    """Sums over levels at every step, the measured gap first."""
    for quantity in QUANTITIES:
        for method, runs in found.items():
            for sampler in METHODS.values():
                for step in _steps(runs):
                    values = [_total(points, sampler, step, quantity) for points in runs]
                    system = f"{method}, {sampler} negatives on {dataset}"
                    metric = f"{LABELS.get(quantity, quantity)}, sampled levels together"
                    yield row(system, metric, values, x=step)


def _steps(runs: Sequence[Points]) -> list[int]:
    return sorted({one["step"] for one in runs[0]})


def _total(points: Points, sampler: str, step: int, quantity: str) -> float:
    """The sum over levels; shares of the positive are averaged."""
    values = [one[quantity] for one in points if one["sampler"] == sampler and one["step"] == step]
    return statistics.fmean(values) if quantity == "positive" else sum(values)


def _claims(found: Mapping[str, Sequence[Points]], dataset: str) -> list[Claim]:
    """The expectations of E8, and what would refute them."""
    claims = []
    for quantity in ("kl_plus", "kl"):
        values = [_correlation([*one, *other], quantity) for one, other in zip(*found.values(), strict=True)]
        note = f"rank correlation with the measured gap over levels, steps and samplers; must be above {HIGH}"
        claims.append(over_seeds(f"{LABELS[quantity]} orders gaps on {dataset}", SOURCE, values, note, HIGH))
    points = [one for runs in found.values() for run in runs for one in run]
    excess = [max(-one["gap"], one["gap"] - one["kl_plus"]) - (6 * one["error"] + 1e-9) for one in points]
    note = f"of {len(points)} levels, by how much the worst leaves 0 <= gap <= KL(Q || P+), beyond six standard errors"
    name = f"gaps keep to KL(Q || P+) on {dataset}"
    claims.append(claim(name, "two_stage.md, I36", max(excess) <= 0, max(excess), note))
    for method, sampler in METHODS.items():
        for quantity, up in (("kl", True), ("kl_plus", False)):
            changes = [_change(run, sampler, quantity) for run in found[method]]
            verb = "rises" if up else "falls"
            note = f"value at the last step minus that at the first step after 0, {sampler} negatives, sampled levels"
            signed = changes if up else [-one for one in changes]
            name = f"{LABELS[quantity]} {verb} during training of {method} on {dataset}"
            claims.append(over_seeds(name, SOURCE, signed, note if up else f"{note}, with the opposite sign"))
    return claims


def _correlation(points: Points, quantity: str) -> float:
    """The rank correlation with the gap; 0 where one of them is constant."""
    return rank_correlation([one[quantity] for one in points], [one["gap"] for one in points]) or 0.0


def _change(points: Points, sampler: str, quantity: str) -> float:
    """The change from the first step after 0 to the last."""
    steps = _steps([points])[1:]
    return sum(
        _total(points, sampler, later, quantity) - _total(points, sampler, earlier, quantity)
        for earlier, later in pairwise(steps)
    )
