"""One setting of a tree method over several values, and the rows that draw the curve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.trial import EXCLUDED, WITH_SEEN, Settings, Trial, data_setups
from shortlist.lab.result import Claim, Result, Row, result, row, start
from shortlist.progress import Progress, silent

VARIANTS = ("dtr-u", "dtr-t", "dtr-t-rl")
CURVE_METRICS = ("f1@20", "recall@20")
SHORT: Settings = {"rounds": 2, "steps": 300, "eval_every": 300}
TINY: Settings = {"rounds": 1, "steps": 3, "eval_every": 3}

Runs = Sequence[Mapping[str, Scores]]  # one per seed
Curve = Mapping[float, Runs]  # by value of the setting
Drawn = tuple[Sequence[Row], Sequence[Claim]]


def figure(
    name: str, x: str, seeds: Sequence[int] = (0,)
) -> Callable[[Callable[[Sequence[Trial]], Drawn]], Callable[..., Result]]:
    """An experiment on one data set, whose rows are drawn over `x`, from a function of a trial per seed."""
    usual = seeds

    def experiment(draw: Callable[[Sequence[Trial]], Drawn]) -> Callable[..., Result]:
        def run(
            data: Path | None,
            profile: str = "quick",
            seeds: Sequence[int] = usual,
            progress: Progress = silent,
            cache_file: Path | None = None,
            where: str = "ml-1m",
        ) -> Result:
            began, full = start(), experiment_name(name, where)
            trials = trials_of(full, where, data, profile, seeds, progress, cache_file)
            rows, claims = draw(trials)
            cache = trials[0].cache
            facts = {"settings": cache.settings, "training": cache.training}
            return result(full, profile, seeds, began, rows, claims, x=x, **facts)

        run.__name__, run.__doc__ = draw.__name__, draw.__doc__
        return run

    return experiment


def trials_of(
    name: str,
    where: str,
    data: Path | None,
    profile: str,
    seeds: Sequence[int],
    progress: Progress,
    cache_file: Path | None,
) -> list[Trial]:
    """A trial per seed on one data set; all share one cache."""
    (data_setup,) = data_setups([where], data, profile, name)
    cache = AnswerCache.open(cache_file)
    return [Trial(data_setup, seed, cache, progress) for seed in seeds]


def experiment_name(name: str, where: str) -> str:
    """The name of an experiment on a data set; MovieLens-1M is the default and is left out."""
    return name if where == "ml-1m" else f"{name}-{where}"


def sweep(
    trials: Sequence[Trial], method: str, setting: str, values: Sequence[float], **overrides: Any
) -> dict[float, Runs]:
    """Scores of a method after short training, at every value of a setting."""
    return {
        value: [short_training(one, method, **{**overrides, setting: value}) for one in trials]
        for value in values
    }


def short_training(trial: Trial, method: str, **overrides: Any) -> dict[str, Scores]:
    """Scores of a method after short training; its name in the cache is the same in all experiments."""
    settings = {**short(trial), **overrides}
    return trial.scores(name_of(trial, method, settings), method, **settings)


def short(trial: Trial) -> Settings:
    """The length of a training where many values are compared."""
    return TINY if trial.data_setup.quick else SHORT


def name_of(trial: Trial, method: str, overrides: Settings) -> str:
    """A method with all settings of its plan that differ from the usual: equal trainings have equal names."""
    usual, plan = trial.plan(method), trial.plan(method, **overrides)
    changed = [one.name for one in fields(plan) if getattr(usual, one.name) != getattr(plan, one.name)]
    return ", ".join([method, *(f"{name} {getattr(plan, name)}" for name in changed)])


def curve_rows(
    curves: Mapping[str, Curve],
    dataset: str,
    metrics: Sequence[str] = CURVE_METRICS,
    kinds: Sequence[str] = (EXCLUDED, WITH_SEEN),
) -> list[Row]:
    """A row for every point of every curve."""
    return [
        row(f"{name} on {dataset}", metric + kind, means(runs, metric, kind), x=value)
        for metric in metrics
        for kind in kinds
        for name, curve in curves.items()
        for value, runs in curve.items()
    ]


def means(runs: Runs, metric: str, kind: str = "") -> list[float]:
    """The mean over the users of each seed."""
    return [float(one[kind][metric].nanmean()) for one in runs]
