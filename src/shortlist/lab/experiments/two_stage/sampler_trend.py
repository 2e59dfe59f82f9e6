"""Lemma 3 of the DTR paper while a tree learns: does the divergence that bounds a sampled loss go with its real gap?

A binary tree learns with uniform and with tree-based draws. At some moments the full softmax loss of every level is
held against what its sampled form gives, for both ways to draw: the gap by Monte Carlo, the paper's KL(Q || P), the
mended KL(Q || P+), and the estimate for many draws. Levels that are taken whole have no gap and are left out.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.lab.experiments.cache import empty
from shortlist.lab.experiments.sweeps import experiment_name, trials_of
from shortlist.lab.experiments.trees.branches import NEGATIVES
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.trends import over_seeds
from shortlist.lab.experiments.two_stage.bounds_trend import HIGH, rank_correlation
from shortlist.lab.result import claim, result, row, start
from shortlist.lab.theory.bounds_sampler import sampler_levels
from shortlist.progress import Progress, silent
from shortlist.train.tree.training import TreeTraining, TreeTrainingSet

SOURCE = "two_stage.md, E8"
METHODS = {"dtr-u": "uniform", "dtr-t": "tree"}  # who learns, and how it draws
MOMENTS = (0, 150, 600, 2400)
QUICK = (0, 5, 20)
INSTANCES = 512
TOLD = ("gap", "kl_plus", "kl", "delta", "loss", "positive")
NAMES = {"kl": "KL(Q || P)", "kl_plus": "KL(Q || P+)", "positive": "share of the positive"}
Points = Sequence[Mapping[str, Any]]  # a level at a moment under a way to draw


def bounds_sampler(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """Both learners for every seed, looked at through both ways to draw."""
    began, name = start(), experiment_name("bounds-sampler", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    found = {method: [points_of(trial, method) for trial in trials] for method in METHODS}
    place = trials[0].ground.name
    told = result(name, profile, seeds, began, list(_rows(found, place)), _claims(found, place))
    return told | {"x": "steps"}


def points_of(trial: Trial, method: str) -> Points:
    """What was measured of a tree while it learned, or what is kept of it."""
    moments = QUICK if trial.ground.quick else MOMENTS
    asked: dict[str, Any] = {
        "rounds": 1,
        "steps": moments[-1],
        "eval_every": moments[-1],
        "update": "none",
        "levels": "all",
    }
    asked |= {"scorer": "linear"} if trial.ground.quick else {}
    plan = trial.plan(method, **asked, negatives=trial.ground.few(NEGATIVES))

    def measured() -> tuple[Tensor, dict[str, Any]]:
        training = TreeTraining(
            plan, TreeTrainingSet(trial.split.train), trial.seed, trial.device, trial.progress
        )
        picked = torch.randperm(len(training.instances), generator=torch.Generator().manual_seed(trial.seed))
        rows = picked[: 64 if trial.ground.quick else INSTANCES].to(training.device)
        histories, labels = training.instances.histories(rows), training.instances.targets(rows)
        points = []
        for moment in moments:
            index = training.run(moment)
            each = sampler_levels(
                index, histories, labels, plan.negatives, plan.mix, draws=100, seed=trial.seed
            )
            points += [one.as_dict() | {"step": moment} for one in each]
        return empty(), {"points": points}

    name = f"{trial.ground.name}/bounds-sampler, {method}/{trial.seed}"
    _, facts = trial.cache.get(name, measured, asdict(plan) | {"moments": moments})
    return [one for one in facts["points"] if not one["whole"]]


def _rows(found: Mapping[str, Sequence[Points]], place: str) -> Iterator[dict[str, Any]]:
    """Sums over levels at every moment, the measured gap first."""
    for what in TOLD:
        for method, runs in found.items():
            for sampler in METHODS.values():
                for step in _moments(runs):
                    values = [_total(points, sampler, step, what) for points in runs]
                    who = f"{method}, {sampler} draws on {place}"
                    yield row(who, f"{NAMES.get(what, what)}, sampled levels together", values) | {"x": step}


def _moments(runs: Sequence[Points]) -> list[int]:
    return sorted({one["step"] for one in runs[0]})


def _total(points: Points, sampler: str, step: int, what: str) -> float:
    """The sum over levels; shares of the positive are averaged."""
    values = [one[what] for one in points if one["sampler"] == sampler and one["step"] == step]
    return statistics.fmean(values) if what == "positive" else sum(values)


def _claims(found: Mapping[str, Sequence[Points]], place: str) -> list[dict[str, Any]]:
    """What E8 expects, and what would refute it."""
    claims = []
    for what in ("kl_plus", "kl"):
        values = [_tracked([*one, *other], what) for one, other in zip(*found.values(), strict=True)]
        note = f"rank correlation with the measured gap over levels, moments and draws; must be above {HIGH}"
        claims.append(over_seeds(f"{NAMES[what]} orders gaps on {place}", SOURCE, values, note, HIGH))
    spread = [one for runs in found.values() for points in runs for one in points]
    wide = [6 * one["error"] + 1e-9 for one in spread]
    over = [max(-one["gap"], one["gap"] - one["kl_plus"]) - by for one, by in zip(spread, wide, strict=True)]
    note = f"of {len(spread)} levels, by how much the worst leaves 0 <= gap <= KL(Q || P+), beyond six standard errors"
    claims.append(
        claim(f"gaps keep to KL(Q || P+) on {place}", "two_stage.md, I36", max(over) <= 0, max(over), note)
    )
    for method, sampler in METHODS.items():
        for what, up in (("kl", True), ("kl_plus", False)):
            changes = [_change(points, sampler, what) for points in found[method]]
            word = "rises" if up else "falls"
            note = f"last moment less the first after some steps, of {sampler} draws, all sampled levels together"
            signed = changes if up else [-one for one in changes]
            name = f"{NAMES[what]} {word} while {method} learns on {place}"
            claims.append(over_seeds(name, SOURCE, signed, note if up else f"{note}, sign turned"))
    return claims


def _tracked(points: Points, what: str) -> float:
    """The rank correlation with the gap; 0 where nothing changes."""
    return rank_correlation([one[what] for one in points], [one["gap"] for one in points]) or 0.0


def _change(points: Points, sampler: str, what: str) -> float:
    """From the first moment after some steps to the last."""
    steps = _moments([points])[1:]
    return sum(
        _total(points, sampler, later, what) - _total(points, sampler, earlier, what)
        for earlier, later in pairwise(steps)
    )
