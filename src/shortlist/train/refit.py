"""The last step of training: measure the pipeline, then fit every stage again on all events, to serve."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from shortlist.data import Dataset, HeldOut, Split
from shortlist.grammar import Stage, leaves
from shortlist.pipeline import TYPES, Recommender
from shortlist.pipeline.about import Refit, TrainingHistory
from shortlist.progress import Labelled, Progress, silent
from shortlist.train.folds import Folds
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.measure import measure
from shortlist.train.pipeline import TrainedPipeline, train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.registry import TRAINERS


def measured(run: TrainedPipeline, split: Split, progress: Progress = silent) -> TrainedPipeline:
    """The recommender with its metrics on the validation and the test requests, as `shortlist evaluate` gives them."""
    trained, parts = run.recommender, {"valid": split.valid, "test": split.test}
    figures = {
        part: measure(trained.pipeline, requests, progress)
        for part, requests in parts.items()
        if len(requests)
    }
    return replace(run, recommender=replace(trained, about=replace(trained.about, measured=figures)))


def refit(
    run: TrainedPipeline,
    dataset: Dataset,
    progress: Progress = silent,
    checkpoint_dir: Path | None = None,
    log: TrainingLog | None = None,
) -> Recommender:
    """The recommender with every stage fitted on all events; the pipeline that was measured stays beside it.

    Nominators continue from the measured ones where they have epochs; there are no validation requests, so the epochs
    of the measured run say for how long. Later stages are trained on the requests of the measured run and on the
    held-out ones, with the candidates of the measured nominators, which were fitted without their targets. A ranker
    stays as measured, with the counts of all events, where none of these targets is among the candidates. With a
    full-stage `log`, all its requests are trained on instead.
    """
    trained = run.recommender
    about, recipe = trained.about, trained.recipe
    assert recipe is not None
    epochs = best_epochs(trained)
    stages = {stage.title: stage for stage in leaves(trained.pipeline)}
    served = train_pipeline(
        recipe,
        dataset,
        about.seed,
        all_events(dataset, about.split),
        Labelled(progress, "refit: "),
        checkpoint_dir=checkpoint_dir,
        best_epochs=epochs,
        folds=None if log is not None else _folds(run, dataset, stages),
        warm=stages,
        log=log,
    ).recommender
    pipeline, users = trained.pipeline, int(np.count_nonzero(dataset.events.lengths))
    kept = {name: one.kept for name, one in served.about.training.items() if one.kept}
    again = tuple(name for name in recipe.stages if name not in kept)
    training = {
        name: _with_examples(one, served.about.training.get(name)) for name, one in about.training.items()
    }
    facts = Refit(served.about.events, users, again, epochs, kept)
    return replace(
        trained,
        pipeline=served.pipeline,
        about=replace(about, ends=served.about.ends, refit=facts, training=training),
        measured=lambda: pipeline,
    )


def _with_examples(measured: TrainingHistory, served: TrainingHistory | None) -> TrainingHistory:
    """The history of the measured stage with what the served one says about importance weights of its examples."""
    if served is None or served.effective_examples is None:
        return measured
    warnings = tuple(dict.fromkeys((*measured.warnings, *served.warnings)))
    return replace(measured, effective_examples=served.effective_examples, warnings=warnings)


def _folds(run: TrainedPipeline, dataset: Dataset, stages: dict[str, Stage]) -> Folds | None:
    """The requests of the measured run, and the held-out ones."""
    recipe, about = run.recommender.recipe, run.recommender.about
    if run.folds is None or recipe is None:
        return None
    work = PipelineTrainer.of(recipe, TYPES, TRAINERS)
    split = dataset.split(**about.split)
    return work.with_held_out(run.folds, stages, split, about.seed)


def best_epochs(trained: Recommender) -> dict[str, int]:
    """The best epoch of every stage that was validated on held-out requests."""
    histories = trained.about.training.items()
    return {
        name: one.best_epoch for name, one in histories if one.best_epoch is not None and one.mode is None
    }


def all_events(dataset: Dataset, settings: Mapping[str, object]) -> Split:
    """A split without held-out requests."""
    events, none = dataset.events, np.empty(0, np.int64)
    nobody = HeldOut(events, none, none, none)
    return Split(events, np.ones(len(events), bool), nobody, nobody, dict(settings))  # type: ignore[arg-type]
