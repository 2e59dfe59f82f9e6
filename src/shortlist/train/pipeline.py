"""Train a recipe on a log: every stage is trained on the candidates that the stages before it pass on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from shortlist import __version__
from shortlist.data import Dataset, Split
from shortlist.grammar import Stage
from shortlist.pipeline import TYPES, About, Recipe, Recommender
from shortlist.pipeline.about import TrainingHistory
from shortlist.pipeline.recipe import Types
from shortlist.progress import Progress, silent
from shortlist.settings import check_settings, settings_of
from shortlist.state.histories import UserHistories
from shortlist.train.context import TrainContext
from shortlist.train.folds import Folds
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.preparation.event_weights import check_event_weights
from shortlist.train.preparation.examples import check_examples
from shortlist.train.rankers.training_data.out_of_fold import (
    OutOfFoldConfig,
)
from shortlist.train.registry import TRAINERS, Trainer


@dataclass(frozen=True, eq=False)
class TrainedPipeline:
    """A trained recommender, and the requests with out-of-fold candidates that its later stages were trained on."""

    recommender: Recommender
    folds: Folds | None = None  # None: no stage needs them


def train_pipeline(
    recipe: Recipe,
    dataset: Dataset,
    seed: int = 0,
    split: Split | None = None,
    progress: Progress = silent,
    types: Types = TYPES,
    trainers: Mapping[str, type[Trainer]] = TRAINERS,
    checkpoint_dir: Path | None = None,
    best_epochs: Mapping[str, int] | None = None,
    folds: Folds | None = None,
    warm: Mapping[str, Stage] | None = None,
    log: TrainingLog | None = None,
) -> TrainedPipeline:
    """Train all stages of a recipe on the training part of a split; it remembers all events of all users.

    Nominators and filters are fitted without the targets of the training requests, to make the candidates that later
    stages are trained on; then on all training events, to serve, continued from the first fit where they have epochs.
    `folds` are such candidates from an earlier call. Long trainings write checkpoints to the folder `checkpoint_dir`
    and resume from there. `about.training` holds the training history of each stage. `best_epochs` are those of a run
    with validation requests, for a split that has none; `warm` are stages to continue from. With a full-stage `log`,
    the requests before the held-out events of their users, if there are any, replace those that are made from events.
    """
    split = dataset.split() if split is None else split
    check_settings(recipe.training, settings_of(OutOfFoldConfig), f"{recipe.path}: [train]")
    work = PipelineTrainer.of(recipe, types, trainers)
    check_event_weights(recipe, work.trainers, split.events)
    check_examples(recipe, work.trainers, log)
    histories: dict[str, TrainingHistory] = {}
    context = context_of(dataset, split, seed, progress, checkpoint_dir, best_epochs)
    log = log.before_held_out(split) if log is not None else None
    log = log if log is not None and len(log) else None
    context = replace(context, note=histories.__setitem__, warm=warm or {}, log=log)
    if work.later and folds is None:
        folds = work.folds(context, split) if log is None else work.logged_folds(context)
    later, sample = work.fit_later(folds, context) if folds is not None else ({}, {})
    first = folds.parts[0].stages if folds is not None else {}
    stages = work.fit(work.early, replace(context, warm={**first, **(warm or {})}))
    fitted = replace(context, fitted=stages)
    later = {name: work.renewed(name, stage, fitted) for name, stage in later.items()}
    for name, (stage, weights) in work.tuned({**stages, **later}, split, seed).items():
        later[name] = stage
        histories[name] = replace(histories[name], weights=weights)
    about = About(
        name=recipe.name,
        data=dataset.name,
        fingerprint=dataset.fingerprint,
        clock=dataset.clock,
        ends=context.ends,
        events=len(split.train),
        split=dict(split.settings),
        seed=seed,
        package=__version__,
        training={name: histories[name] for name in sorted(histories)},
        out_of_fold=work.out_of_fold(split, log),
        split_warning=split.warning,
    )
    pipeline = work.parsed({**stages, **later})
    trained = Recommender(
        pipeline, dataset.catalog, dataset.users, user_histories(split), about, sample, recipe
    )
    return TrainedPipeline(trained, folds)


def context_of(
    dataset: Dataset,
    split: Split,
    seed: int = 0,
    progress: Progress = silent,
    checkpoint_dir: Path | None = None,
    best_epochs: Mapping[str, int] | None = None,
) -> TrainContext:
    """The training events of a split with its validation requests."""
    return TrainContext(
        split.train,
        dataset.catalog,
        dataset.clock,
        seed,
        progress,
        split.valid if len(split.valid) else None,
        checkpoint_dir=checkpoint_dir,
        best_epochs=best_epochs or {},
        user_table=dataset.user_table,
    )


def user_histories(split: Split) -> UserHistories:
    """All items of every user, and how many of them are training events: under every protocol those come first."""
    events = split.events
    trained = np.bincount(events.users, weights=split.in_train, minlength=events.n_users).astype(np.int64)
    starts, items = events.starts.astype(np.int64), events.items.copy()
    return UserHistories(*map(torch.from_numpy, (starts, items, trained)))
