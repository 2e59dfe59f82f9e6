"""Train a recipe on a data set, and save the bundle."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from shortlist import __version__
from shortlist.artifact import Lineage
from shortlist.data import Dataset, Split, load_dataset
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import TYPES, About, Recipe, Recommender, find_recipe, save_recommender, to_toml
from shortlist.pipeline.about import Refresh
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.progress import Progress, silent
from shortlist.train.auto.plan import MINUTES, Plan, plan_for
from shortlist.train.auto.remembered import remembered
from shortlist.train.auto.train import AutoTraining
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.pipeline import TrainedPipeline, train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.preparation.checks import check_before_training, check_free_space, only_training
from shortlist.train.preparation.split_of import check_protocol, split_of
from shortlist.train.refit import measured
from shortlist.train.refit import refit as refitted
from shortlist.train.registry import TRAINERS

AUTO = "auto"  # the recipe that is composed for the data


def train(
    recipe: Recipe | Path | str = AUTO,
    data: Dataset | Path | str | None = None,
    out: Path | str | None = None,
    *,
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    protocol: str | None = None,
    seed: int = 0,
    refit: bool = True,
    force: bool = False,
    checkpoint_dir: Path | str | None = None,
    from_log: Path | str | None = None,
    label_rule: int | None = None,
    log_since: int | None = None,
    progress: Progress = silent,
) -> Recommender:
    """A recommender trained on the training part of the split, measured, and fitted again on all events.

    `recipe` is a `Recipe`, a TOML file, the name of a shipped recipe, or "auto": then `shortlist.plan` composes one for
    the data and `minutes` of training (10 if not given), and a single model is kept if the pipeline is not above it.
    `data` is a `Dataset` or its folder; with `out` the recommender is also saved there. `settings` change the recipe:
    `{"stages.sasrec.train.epochs": 20}`. `protocol` replaces the split of the data set. Without `refit` the measured
    pipeline is served. `force` replaces a bundle that exists. Long trainings write checkpoints to `checkpoint_dir` and
    resume from there. `from_log` is the folder of a full-stage log of this pipeline with labels: stages that can learn
    from it do, the others from `data`; `label_rule` is the version of the labels, if there are several, and `log_since`
    the time in milliseconds of the first request that is used.
    """
    given = _given(recipe, settings, minutes)
    _check_log(from_log, label_rule, log_since, given)
    if data is None:
        raise ConfigError("train: expected a data set or its folder as `data`, got none (--data)")
    folder = None if out is None else Path(out)
    checkpoints = None if checkpoint_dir is None else Path(checkpoint_dir)
    check_protocol(protocol)
    with only_training(folder, force, checkpoints):
        dataset = data if isinstance(data, Dataset) else load_dataset(data)
        split, unmeasured = split_of(dataset, protocol)
        refit = refit and not unmeasured  # the only pipeline is fitted on all events already
        plan = None
        if given is None:
            budget = MINUTES if minutes is None else minutes
            key = (dataset.fingerprint, dict(split.settings), budget, seed, refit)
            plan = remembered(
                checkpoints, key, lambda: plan_for(dataset, split, budget, seed, refit, progress)
            )
            given = with_settings(plan.recipe, settings or {})
        if folder is not None:
            check_free_space(folder, given, dataset, refit)
        log = (
            None if from_log is None else _read_log(from_log, label_rule, log_since, given, dataset, progress)
        )
        run = train_measured(given, dataset, split, seed, checkpoints, progress, refit, plan, log)
        run = _with_warnings(run, unmeasured)
        trained = refitted(run, dataset, progress, checkpoints, log) if refit else run.recommender
        return trained if folder is None else save_trained(trained, dataset, folder, force)


def train_measured(
    recipe: Recipe,
    dataset: Dataset,
    split: Split,
    seed: int = 0,
    checkpoints: Path | None = None,
    progress: Progress = silent,
    refit: bool = True,
    plan: Plan | None = None,
    log: TrainingLog | None = None,
) -> TrainedPipeline:
    """A recommender trained on a split and measured; checked before the first fit, also for a `refit` after it.

    With a `plan`, nominators that add nothing are dropped, and the best single model is kept if it is not below. With a
    `log`, what of it was not used is among the warnings.
    """
    if plan is not None:
        return AutoTraining(
            plan, recipe, dataset, plan.sampled(split), seed, checkpoints, progress, refit
        ).run()
    left_out = _left_out(log, split, refit)
    logged = log is not None and len(log.before_held_out(split)) > 0
    warnings = check_before_training(recipe, dataset, split, seed, refit=refit, logged=logged)
    trained = train_pipeline(recipe, dataset, seed, split, progress, checkpoint_dir=checkpoints, log=log)
    return measured(_with_warnings(trained, (*warnings, *left_out)), split, progress)


def _check_log(
    from_log: Path | str | None, label_rule: int | None, log_since: int | None, recipe: Recipe | None
) -> None:
    """Refuse options of a log that do not fit, before any work."""
    if from_log is None and label_rule is not None:
        raise ConfigError("--label-rule chooses labels of a log, got it without --from-log")
    if from_log is None and log_since is not None:
        raise ConfigError("--log-since chooses requests of a log, got it without --from-log")
    if from_log is not None and recipe is None:
        raise ConfigError(
            f"--from-log trains the pipeline that served the requests, got {AUTO}; give the recipe of the bundle that "
            "wrote the log"
        )


def _read_log(
    from_log: Path | str,
    label_rule: int | None,
    log_since: int | None,
    recipe: Recipe,
    dataset: Dataset,
    progress: Progress,
) -> TrainingLog:
    work = PipelineTrainer.of(recipe, TYPES, TRAINERS)
    return read_training_log(
        from_log,
        dataset,
        work.step_names,
        work.config.log_requests,
        label_rule,
        progress,
        work.reads_scores,
        log_since,
    )


def _left_out(log: TrainingLog | None, split: Split, refit: bool) -> tuple[str, ...]:
    """What of a log was not used, in sentences."""
    if log is None:
        return ()
    later = len(log) - len(log.before_held_out(split))
    if later == len(log) and not refit:
        raise DataError(
            f"training from a log: all {later} requests are later than the first held-out event of their user, so the "
            "measured pipeline cannot learn from them; leave out --no-refit, or choose another --protocol"
        )
    held_out = f"log: {later:,} requests are later than held-out events of their users: the measured pipeline was not"
    total = f"log: trained on {len(log):,} of {log.left_out.requests:,} requests"
    reasons = (f"log: {one}" for one in log.notes)
    return (total, *([f"{held_out} trained on them, only the served one"] if later else []), *reasons)


def _given(
    recipe: Recipe | Path | str, settings: Mapping[str, Any] | None, minutes: float | None
) -> Recipe | None:
    """The recipe with its settings, None for "auto"."""
    if not isinstance(recipe, Recipe) and str(recipe) == AUTO and not Path(AUTO).is_file():
        return None
    if minutes is not None:
        raise ConfigError(
            f"--minutes is the time budget of {AUTO}, got it beside a recipe; leave out the recipe, or limit a stage: "
            "--set stages.NAME.train.minutes=2"
        )
    return with_settings(recipe if isinstance(recipe, Recipe) else find_recipe(recipe), settings or {})


def describe_split(split: Mapping[str, Any]) -> str:
    """The settings of a split in one line."""
    chosen = ", ".join(f"{name} {value}" for name, value in split.items() if name != "protocol")
    return f"{split['protocol']} ({chosen})" if chosen else str(split["protocol"])


def describe_training(about: About) -> str:
    """What was measured and what is served, in two sentences."""
    test = about.measured.get("test")
    figures = (
        "" if test is None else ", ".join(f"{name} {one.mean:.4f}" for name, one in test.metrics.items())
    )
    on = "" if test is None else f": {figures} on {test.users:,} test requests"
    first = f"Measured under {describe_split(about.split)}, trained on {about.events:,} events{on}."
    if not about.measured:
        first = f"Trained on {about.events:,} events; nothing was measured."
    if about.refresh is not None:
        return f"{first} {_describe_refresh(about.refresh)}"
    if about.refit is None:
        again = "; it was not fitted again on all events" if about.measured else ""
        return f"{first} This pipeline is served{again}."
    but = f" but {', '.join(about.refit.kept)}" if about.refit.kept else ""
    return (
        f"{first} Served: all stages{but} fitted again on {about.refit.events:,} events of "
        f"{about.refit.users:,} users."
    )


def _describe_refresh(refresh: Refresh) -> str:
    counted = ", ".join(refresh.stages) or "no stage"
    return (
        f"Served: {refresh.events:,} events of {refresh.users:,} users in the histories and the counts of {counted}; "
        "other stages as they were trained."
    )


def _with_warnings(run: TrainedPipeline, warnings: tuple[str, ...]) -> TrainedPipeline:
    about = run.recommender.about
    about = replace(about, size_warnings=(*about.size_warnings, *warnings))
    return replace(run, recommender=replace(run.recommender, about=about))


def _describe_plan(about: About) -> str:
    """What auto saved and why; empty for a recipe of the user."""
    if about.plan is None:
        return ""
    dropped = "".join(f" Dropped: {name}, {reason}." for name, reason in about.plan.dropped.items())
    return f"\n\nComposed for this log: {about.plan.verdict}.{dropped}"


def save_trained(trained: Recommender, dataset: Dataset, out: Path, force: bool) -> Recommender:
    """Write a bundle with its recipe and a card for whoever finds it."""
    about, recipe = trained.about, trained.recipe
    assert recipe is not None
    config = {"recipe": to_toml(recipe), "split": dict(about.split), "threads": torch.get_num_threads()}
    lineage = Lineage(about.fingerprint, about.seed, __version__, config)
    card = {"README.md": _card(about, repr(trained.pipeline), dataset)}
    artifact = save_recommender(trained, out, lineage, card, overwrite=force)
    return replace(trained, about=replace(about, version=artifact.version))


def _card(about: About, pipeline: str, dataset: Dataset) -> str:
    """What a person who finds the bundle should know."""
    return (
        f"# {about.name}\n\n"
        f"A multi-stage recommender, trained by shortlist {__version__} on {dataset.name!r}: "
        f"{len(dataset.events):,} events, {len(dataset.users):,} users, {len(dataset.items):,} items, "
        f"seed {about.seed}.\n\n"
        f"    {pipeline}\n\n"
        f"{describe_training(about)}{_describe_plan(about)}\n\n"
        "`recipe.toml` is the recipe, `pipeline.toml` the served pipeline.\n\n"
        "Answer a request with `shortlist recommend`, follow an item with `shortlist explain`.\n"
    )
