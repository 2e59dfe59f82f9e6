"""One setting of a tree method over some values, and the rows that draw what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.experiments.trees.common import Settings, Trial, grounds_of
from shortlist.lab.result import row
from shortlist.progress import Progress

VARIANTS = ("dtr-u", "dtr-t", "dtr-t-rl")
SHOWN = ("f1@20", "recall@20")
SHORT: Settings = {"rounds": 2, "steps": 300, "judge_every": 300}
TINY: Settings = {"rounds": 1, "steps": 3, "judge_every": 3}

Runs = Sequence[Mapping[str, Scores]]  # one for every seed
Curve = Mapping[float, Runs]  # by value of the setting


def trials_of(
    name: str,
    where: str,
    data: Path | None,
    profile: str,
    seeds: Sequence[int],
    progress: Progress,
    keep: Path | None,
) -> list[Trial]:
    """A trial for every seed on one data set; all keep their answers in one file."""
    (ground,) = grounds_of([where], data, profile, name)
    kept = Kept.at(keep)
    return [Trial(ground, seed, kept, progress) for seed in seeds]


def titled(name: str, where: str) -> str:
    """The name of an experiment on a data set; MovieLens-1M goes without saying."""
    return name if where == "ml-1m" else f"{name}-{where}"


def swept(
    trials: Sequence[Trial], method: str, setting: str, values: Sequence[float], **given: Any
) -> dict[float, Runs]:
    """Scores of a method, taught shortly, at every value of a setting."""
    return {value: [taught(one, method, **{**given, setting: value}) for one in trials] for value in values}


def taught(trial: Trial, method: str, **given: Any) -> dict[str, Scores]:
    """Scores of a method after a short lesson, kept under a name that other experiments know too."""
    asked = {**short(trial), **given}
    return trial.scores(name_of(trial, method, asked), method, **asked)


def short(trial: Trial) -> Settings:
    """The length of lessons where many values are compared."""
    return TINY if trial.ground.quick else SHORT


def name_of(trial: Trial, method: str, given: Settings) -> str:
    """A method with what is unusual about its plan: the same training has the same name everywhere."""
    usual, asked = trial.plan(method), trial.plan(method, **given)
    changed = [one.name for one in fields(asked) if getattr(usual, one.name) != getattr(asked, one.name)]
    return ", ".join([method, *(f"{name} {getattr(asked, name)}" for name in changed)])


def curve_rows(
    curves: Mapping[str, Curve],
    where: str,
    metrics: Sequence[str] = SHOWN,
    kinds: Sequence[str] = ("", ", seen kept"),
) -> list[dict[str, Any]]:
    """A row for every point of every curve."""
    return [
        row(f"{name} on {where}", metric + kind, means(runs, metric, kind)) | {"x": value}
        for metric in metrics
        for kind in kinds
        for name, curve in curves.items()
        for value, runs in curve.items()
    ]


def means(runs: Runs, metric: str, kind: str = "") -> list[float]:
    """The mean over the users of each seed."""
    return [float(one[kind][metric].nanmean()) for one in runs]
