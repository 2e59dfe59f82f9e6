"""Train a recipe on a log: every stage is trained on the candidates that the stages before it pass on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist import __version__
from shortlist.data import Dataset, HeldOut, Interactions, Split
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import Filter, Nominator, Pipeline, Scorer, Stage, leaves
from shortlist.pipeline import TYPES, About, Recipe, Recommender
from shortlist.pipeline.about import OutOfFold, TrainingHistory
from shortlist.pipeline.expression import parse
from shortlist.pipeline.offline import offline
from shortlist.pipeline.placeholders import placeholder
from shortlist.pipeline.plugins import source_hash
from shortlist.pipeline.recipe import Types
from shortlist.pipeline.recommender import UserHistories
from shortlist.progress import Labelled, Progress, silent
from shortlist.settings import check_settings, settings_of
from shortlist.train.context import RequestBatch, TrainContext, no_history
from shortlist.train.event_weights import check_event_weights, with_weights
from shortlist.train.finished_stages import fit_once
from shortlist.train.rankers.out_of_fold import OutOfFoldConfig, folds_of, out_of_fold_data, request_batches
from shortlist.train.rankers.sample import training_sample
from shortlist.train.registry import TRAINERS, Renewer, Trainer, trainer_of

Stages = dict[str, Stage]
Tensors = dict[str, Tensor]

MODEL_KEYS = ("start", "by")  # settings that name a stage whose model is used
COLUMN_KEYS = ("nominators",)  # settings that name stages whose scores and ranks are used


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
) -> Recommender:
    """Train all stages of a recipe on the training part of a split; it remembers all events of all users.

    Nominators and filters are fitted twice: first without the targets of the training requests, to make the candidates
    that rankers are trained on; then on all training events, to serve. Long trainings write checkpoints to the folder
    `checkpoint_dir` and resume from there. `about.training` holds the training history of each stage. `best_epochs`
    are those of a run with validation requests, for a split that has none.
    """
    split = dataset.split() if split is None else split
    check_settings(recipe.training, settings_of(OutOfFoldConfig), f"{recipe.path}: [train]")
    pipeline_trainer = PipelineTrainer.of(recipe, types, trainers)
    check_event_weights(recipe, pipeline_trainer.trainers, split.events)
    histories: dict[str, TrainingHistory] = {}
    context = TrainContext(
        split.train,
        dataset.catalog,
        dataset.clock,
        seed,
        progress,
        split.valid if len(split.valid) else None,
        checkpoint_dir=checkpoint_dir,
        note=histories.__setitem__,
        best_epochs=best_epochs or {},
    )
    later, sample = pipeline_trainer.fit_later(context, split) if pipeline_trainer.later else ({}, {})
    stages = pipeline_trainer.fit(pipeline_trainer.early, context)
    fitted = replace(context, fitted=stages)
    later = {name: pipeline_trainer.renewed(name, stage, fitted) for name, stage in later.items()}
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
        out_of_fold=pipeline_trainer.out_of_fold(),
        split_warning=split.warning,
    )
    pipeline = pipeline_trainer.parsed({**stages, **later})
    return Recommender(pipeline, dataset.catalog, dataset.users, user_histories(split), about, sample, recipe)


def stages_used(recipe: Recipe, name: str) -> tuple[str, ...]:
    """The other stages that the settings of a stage name; it cannot be trained without them."""
    return tuple(dict.fromkeys(used for _, used in references(recipe, name, (*MODEL_KEYS, *COLUMN_KEYS))))


def references(recipe: Recipe, name: str, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs (setting, stage): the settings of a stage, of those in `keys`, that name other stages of the recipe."""
    config = recipe.stages[name]
    for settings in (config.train, config.settings):
        for key in keys:
            value = settings.get(key, ())
            names = value if isinstance(value, list | tuple) else (value,)
            yield from ((key, used) for used in names if used in recipe.stages and used != name)


def user_histories(split: Split) -> UserHistories:
    """All items of every user, and how many of them are training events: under every protocol those come first."""
    events = split.events
    trained = np.bincount(events.users, weights=split.in_train, minlength=events.n_users).astype(np.int64)
    starts, items = events.starts.astype(np.int64), events.items.copy()
    return UserHistories(*map(torch.from_numpy, (starts, items, trained)))


@dataclass(frozen=True, eq=False)
class _Fold:
    """Nominators and filters, the events they were fitted on, and requests whose targets are not among those."""

    stages: Stages
    past: TrainContext
    batches: tuple[RequestBatch, ...]

    def through(self, stage: Stage) -> "_Fold":
        """The same requests after one more stage."""
        with torch.no_grad():
            return replace(self, batches=tuple(one.through(stage) for one in self.batches))


@dataclass(frozen=True)
class PipelineTrainer:
    """A recipe with one trainer per stage."""

    recipe: Recipe
    trainers: Mapping[str, Trainer]
    types: Types
    config: OutOfFoldConfig

    @classmethod
    def of(cls, recipe: Recipe, types: Types, trainers: Mapping[str, type[Trainer]]) -> "PipelineTrainer":
        """The trainers that a recipe asks for; their settings are checked."""
        made = {
            name: trainer_of(one.type, one.train, f"{recipe.path}: [stages.{name}.train]", trainers, types)
            for name, one in recipe.stages.items()
        }
        return cls(recipe, made, types, OutOfFoldConfig(**recipe.training))

    @cached_property
    def early(self) -> list[str]:
        """Nominators and filters: they are trained on events alone."""
        kinds = {name: self.types[one.type] for name, one in self.recipe.stages.items()}
        return [name for name, kind in kinds.items() if issubclass(kind, Nominator | Filter)]

    @cached_property
    def later(self) -> list[str]:
        """All other stages: they are trained on out-of-fold candidates, or need a stage that is trained before."""
        return [name for name in self.recipe.stages if name not in self.early]

    def ranks(self, name: str) -> bool:
        """Whether a stage is trained on out-of-fold candidates."""
        return issubclass(self.types[self.recipe.stages[name].type], Scorer)

    @cached_property
    def n_rankers(self) -> int:
        return max(sum(self.ranks(name) for name in self.later), 1)

    def out_of_fold(self) -> OutOfFold:
        """How training requests were kept out of the nominators' training data."""
        folds = self.config.folds if self.config.out_of_fold == "other-users" else None
        return OutOfFold(self.config.out_of_fold, self.config.requests, folds)

    def fit_later(self, context: TrainContext, split: Split) -> tuple[Stages, Tensors]:
        """The stages after the nominators, trained on the candidates passed to them; and a sample of those."""
        folds = self._folds(context, split)
        trained: Stages = {}
        sample: Tensors = {}
        for position in range(len(self.parsed(folds[0].stages).stages)):
            step = self.parsed({**folds[0].stages, **trained}).stages[position]
            for name in [leaf.title for leaf in leaves(step) if leaf.title in self.later]:
                batches = self._share(folds, context.seed, sum(map(self.ranks, trained)))
                known = folds[0].stages | trained
                trained |= self.fit([name], replace(folds[0].past, batches=batches, fitted=known))
                if self.ranks(name):
                    sample |= training_sample(name, trained[name], batches, context.seed)
            folds = [one.through(self._offline({**one.stages, **trained})[position]) for one in folds]
        return trained, sample

    def _offline(self, stages: Stages) -> tuple[Stage, ...]:
        """The steps of the pipeline without time limits, which a batch of requests would exceed."""
        return offline(self.parsed(stages)).stages

    def out_of_fold_parts(
        self, context: TrainContext, split: Split
    ) -> tuple[Interactions, list[tuple[Interactions, HeldOut]]]:
        """The events before each user's cut, and for every fold the events its nominators may see, with requests."""
        data = out_of_fold_data(context.events, split.settings, context.seed, self.config.requests)
        if self.config.out_of_fold == "earlier":
            return data.past, [(data.past, data.requests)]
        self._check_no_model_used()
        return data.past, list(folds_of(data, self.config.folds, context.seed))

    def _folds(self, context: TrainContext, split: Split) -> list[_Fold]:
        """One fold whose nominators know all users' earlier events, or one per fold of users."""
        before, parts = self.out_of_fold_parts(context, split)
        past = replace(context, events=before)
        # These nominators are not served, so their training histories are not recorded.
        quiet = replace(past, note=no_history)
        folds = []
        for number, (events, requests) in enumerate(parts, start=1):
            label = f"out-of-fold {number} of {len(parts)}: " if len(parts) > 1 else "out-of-fold: "
            stages = self.fit(self.early, replace(quiet, events=events), label)
            folds.append(_Fold(stages, past, tuple(request_batches(requests, self.n_rankers))))
        return folds

    def _share(self, folds: list[_Fold], seed: int, number: int) -> tuple[RequestBatch, ...]:
        """The batches of one ranker: no ranker validates on requests that a stage before it was trained on.

        Batches of several folds are shuffled, so that training and validation of every ranker have some of each.
        """
        batches = [one for fold in folds for one in fold.batches]
        if len(folds) > 1:
            batches = [batches[at] for at in np.random.default_rng((seed, 73)).permutation(len(batches))]
        return tuple(batches[number % len(batches) :: self.n_rankers]) if batches else ()

    def _check_no_model_used(self) -> None:
        """No stage may use the model of a nominator: each was trained on users of other folds."""
        for name in self.later:
            for key, used in references(self.recipe, name, MODEL_KEYS):
                raise ConfigError(
                    f"{self.recipe.where(name)}: uses the model of the nominator {used!r}, which was trained on "
                    "users of the requests; use out_of_fold = 'earlier' (--set train.out_of_fold=earlier), or leave "
                    f"out {key}"
                )

    def fit(self, names: list[str], context: TrainContext, label: str = "") -> Stages:
        """Fit stages in turn, each with access to those before it."""
        made: Stages = {}
        for name in names:
            seen = replace(
                context,
                fitted={**context.fitted, **made},
                progress=Labelled(context.progress, label),
            )
            made[name] = self._fitted(name, seen)
        return made

    def _fitted(self, name: str, context: TrainContext) -> Stage:
        """A fitted stage; an error of its trainer names its place in the recipe."""
        config, trainer = self.recipe.stages[name], self.trainers[name]
        settings = {**config.settings, "name": name}
        kind = self.types[config.type]
        identity = {**settings, "type": config.type, "train": config.train, "trainer": repr(trainer)}
        try:
            return fit_once(
                lambda context: trainer.fit(settings, context),
                kind,
                name,
                identity,
                replace(with_weights(context, self.recipe, name), source=_source(kind, trainer)),
            )
        except (ConfigError, DataError) as error:
            raise type(error)(f"{self.recipe.where(name)}: {error}") from error

    def renewed(self, name: str, stage: Stage, context: TrainContext) -> Stage:
        """A stage that was trained on out-of-fold candidates, with the counts and models of all events."""
        trainer = self.trainers[name]
        context = with_weights(context, self.recipe, name)
        return trainer.renew(stage, context) if isinstance(trainer, Renewer) else stage

    def parsed(self, stages: Stages) -> Pipeline:
        """The pipeline, with a placeholder for every stage that is not trained yet."""
        known = {
            name: stages.get(name) or placeholder(self.types[one.type], name)
            for name, one in self.recipe.stages.items()
        }
        return parse(self.recipe.expression, known, f"{self.recipe.path}: pipeline")


def _source(kind: type[Stage], trainer: Trainer) -> str:
    """A hash of the code from outside the package that makes a stage: its class, its trainer and its model."""
    model = getattr(trainer, "model", None)
    return source_hash([kind, type(trainer), *([model] if isinstance(model, type) else [])])
