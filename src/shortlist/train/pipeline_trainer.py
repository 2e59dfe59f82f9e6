"""The trainers of a recipe: nominators out of fold, later stages on their candidates, everything on all events."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from shortlist.data import Interactions, Split
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import Filter, Nominator, Pipeline, Scorer, Stage, leaves
from shortlist.pipeline import Recipe
from shortlist.pipeline.about import OutOfFold, TrainingHistory
from shortlist.pipeline.expression import parse
from shortlist.pipeline.offline import offline
from shortlist.pipeline.placeholders import placeholder
from shortlist.pipeline.plugins import source_hash
from shortlist.pipeline.recipe import Types
from shortlist.progress import Labelled
from shortlist.train.context import TrainContext, no_history
from shortlist.train.finished_stages import fit_once
from shortlist.train.folds import Fold, Folds, compact
from shortlist.train.logged.request_batches import logged_batches, with_nominations
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.preparation.event_weights import with_weights
from shortlist.train.preparation.examples import with_examples
from shortlist.train.rankers.training_data.out_of_fold import (
    OutOfFoldConfig,
    Requests,
    folds_of,
    held_out_requests,
    out_of_fold_data,
    request_batches,
)
from shortlist.train.rankers.training_data.sample import training_sample
from shortlist.train.rankers.training_data.weights import NothingRetrievedError
from shortlist.train.references import MODEL_KEYS, references
from shortlist.train.registry import Renewer, Trainer, Tuner, trainer_of

Stages = dict[str, Stage]
Tensors = dict[str, Tensor]

TUNING = 4000  # validation requests that stages are tuned on, at most


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

    @property
    def reads_scores(self) -> bool:
        """Whether a trainer reads the scores of a full-stage log."""
        return any(getattr(one, "with_next", False) for one in self.trainers.values())

    @property
    def step_names(self) -> tuple[str, ...]:
        """The stages of a served request, as a full-stage log names them."""
        return tuple(step.title for step in self.parsed({}).stages)

    def out_of_fold(self, split: Split, log: TrainingLog | None = None) -> OutOfFold:
        """How training requests were kept out of the nominators' training data."""
        if log is not None:
            return OutOfFold("log", min(len(log), self.config.requests))
        others = self.config.from_others(split.settings)
        return OutOfFold(
            "other-users" if others else "earlier",
            self.config.requests,
            self.config.folds if others else None,
        )

    def folds(self, context: TrainContext, split: Split) -> Folds:
        """Training requests with the candidates of nominators that were fitted without their targets.

        One fit on all users' earlier events, whose requests are dealt out to folds, or one fit per fold of users.
        """
        before, parts = self.out_of_fold_parts(context, split)
        # These nominators are not served, so their training histories are not recorded.
        quiet, folds = replace(context, note=no_history, warm={}), list[Fold]()
        for number, (events, requests) in enumerate(parts, start=1):
            label = f"out-of-fold {number} of {len(parts)}: " if len(parts) > 1 else "out-of-fold: "
            stages = self.fit(self.early, replace(quiet, events=events), label)
            folds.append(Fold(stages, tuple(request_batches(requests))))
        if len(folds) == 1:
            folds = list(self._dealt(folds[0]))
        return self.nominated(Folds(tuple(folds), before))

    def logged_folds(self, context: TrainContext) -> Folds:
        """Requests of a full-stage log, with candidates as nominators see them that know no event since the first."""
        assert context.log is not None
        log = context.log.newest(self.config.requests)
        past = log.earlier_events(context.events)
        quiet = replace(context, note=no_history, warm={}, log=None, events=past)
        fold = Fold(
            self.fit(self.early, quiet, "log: "), tuple(logged_batches(log, context.events, context.seed))
        )
        if any(leaf.title in self.later for leaf in leaves(self.parsed({}).stages[0])):
            raise ConfigError(
                f"{self.recipe.path}: pipeline: a pool with stages that are trained on candidates cannot be trained "
                "from a log; move them behind >>"
            )
        pool = self._offline(fold.stages)[0]
        batches = tuple(with_nominations(one, pool) for one in fold.batches)
        return Folds(tuple(self._dealt(replace(fold, batches=batches))), past, done=1)

    def _dealt(self, fold: Fold) -> Iterator[Fold]:
        """The requests of one fit dealt out to folds; each has all requests of its users."""
        count = self.config.folds
        parts = (replace(fold, batches=fold.batches[at::count]) for at in range(count))
        yield from (one for one in parts if one.batches)

    def nominated(self, folds: Folds) -> Folds:
        """The folds with the candidates of the pool, unless it contains stages that are trained on candidates."""
        if any(leaf.title in self.later for leaf in leaves(self.parsed({}).stages[0])):
            return folds
        parts = [one.through(self._offline(one.stages)[0]) for one in folds.parts]
        compacted = (
            replace(one, batches=tuple(replace(own, found=compact(own.found)) for own in one.batches))
            for one in parts
        )
        return replace(folds, parts=tuple(compacted), done=1)

    def with_held_out(self, folds: Folds, stages: Stages, split: Split, seed: int) -> Folds:
        """The folds with held-out requests, whose candidates come from nominators fitted without held-out events.

        There are `requests` of both kinds together at most; held-out ones are later, so they come first.
        """
        most = self.config.requests
        requests = held_out_requests((split.valid, split.test), seed, most)
        early = {name: stages[name] for name in self.early}
        new = self.nominated(Folds((Fold(early, tuple(request_batches(requests))),), split.train))
        left = (most - len(new)) // len(folds.parts)
        kept = [one for one in (part.first(left) for part in folds.parts) if one.batches]
        # Counts of items must not contain the targets of any request.
        parts = (*kept, *self._dealt(new.parts[0]))
        return replace(new, parts=parts, events=folds.events if kept else split.train)

    def fit_later(self, folds: Folds, context: TrainContext) -> tuple[Stages, Tensors]:
        """The stages after the nominators, each trained on all requests; and a sample of the candidates of each.

        Copies of a stage that are trained without a fold's requests make that fold's candidates for later stages.
        """
        trained: Stages = {}
        sample: Tensors = {}
        base = replace(context, events=folds.events, log=None)
        steps = self.parsed({}).stages
        for position in range(folds.done, len(steps)):
            names = [leaf.title for leaf in leaves(steps[position]) if leaf.title in self.later]
            for name in names:
                batches = folds.batches(context.seed)
                known = {**folds.parts[0].stages, **trained}
                trained[name] = self._trained_or_kept(name, replace(base, batches=batches, fitted=known))
                if self.ranks(name):
                    sample |= training_sample(name, trained[name], batches, context.seed)
            if any(self.ranks(leaf.title) for step in steps[position + 1 :] for leaf in leaves(step)):
                again = [name for name in names if trained[name] is not context.warm.get(name)]
                folds = self._passed(folds, again, position, trained, base)
        return trained, sample

    def _trained_or_kept(self, name: str, context: TrainContext) -> Stage:
        """A stage trained on the requests of the context; that of an earlier run where no target was retrieved."""
        try:
            return self.fit([name], context)[name]
        except NothingRetrievedError as error:
            if name not in context.warm:
                raise
            context.note(name, TrainingHistory(0, 0, kept=str(error)))
            return context.warm[name]

    def _passed(
        self, folds: Folds, names: list[str], position: int, trained: Stages, base: TrainContext
    ) -> Folds:
        """The folds after one more step, whose trained stages never saw the requests they pass on."""
        parts = []
        quiet = replace(base, note=no_history, warm={})
        for number, fold in enumerate(folds.parts):
            batches = folds.batches(base.seed, without=number)
            known = {**trained, **fold.stages}
            if batches and names:
                label = f"cross-fit {number + 1} of {len(folds.parts)}: "
                own = self.fit(names, replace(quiet, batches=batches, fitted=fold.stages), label)
                known |= own
            parts.append(replace(fold, stages=known).through(self._offline(known)[position]))
        return replace(folds, parts=tuple(parts))

    def _offline(self, stages: Stages) -> tuple[Stage, ...]:
        """The steps of the pipeline without time limits, which a batch of requests would exceed."""
        return offline(self.parsed(stages)).stages

    def out_of_fold_parts(
        self, context: TrainContext, split: Split
    ) -> tuple[Interactions, list[tuple[Interactions, Requests]]]:
        """The events before each user's cut, and for every fold the events its nominators may see, with requests."""
        others, most = self.config.from_others(split.settings), self.config.requests
        data = out_of_fold_data(context.events, split.settings, context.seed, most, several=others)
        if not others:
            return data.past, [(data.past, data.requests)]
        parts = list(folds_of(data, self.config.folds, context.seed))
        return data.before(parts), parts

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
        settings = {**config.settings, "name": name, **self._size(name)}
        kind = self.types[config.type]
        identity = {**settings, "type": config.type, "train": config.train, "trainer": repr(trainer)}
        context = with_examples(context, self.recipe, name, trainer)
        context = replace(with_weights(context, self.recipe, name), source=_source(kind, trainer))
        if name in self.early and not context.source:
            # It sees the stages that its settings name and no others: when others change, it is not fitted again.
            used = dict.fromkeys(one for _, one in references(self.recipe, name, MODEL_KEYS))
            context = replace(
                context, fitted={one: context.fitted[one] for one in used if one in context.fitted}
            )
        try:
            return fit_once(lambda context: trainer.fit(settings, context), kind, name, identity, context)
        except (ConfigError, DataError) as error:
            raise type(error)(f"{self.recipe.where(name)}: {error}") from error

    def _size(self, name: str) -> dict[str, int]:
        """The k that the expression gives a selector, for a trainer that reads it."""
        if not getattr(self.trainers[name], "reads_k", False):
            return {}
        sizes = {leaf.title: leaf.capacity for leaf in leaves(self.parsed({}))}
        return {"k": sizes[name] or 0}

    def renewed(self, name: str, stage: Stage, context: TrainContext) -> Stage:
        """A stage that was trained on out-of-fold candidates, with the counts and models of all events."""
        trainer = self.trainers[name]
        context = with_weights(context, self.recipe, name)
        return trainer.renew(stage, context) if isinstance(trainer, Renewer) else stage

    def tuned(self, stages: Stages, split: Split, seed: int) -> dict[str, tuple[Stage, Mapping[str, float]]]:
        """Stages whose trainers tune them on the validation requests, with the candidates that they get there."""
        tuners = {name: one for name, one in self.trainers.items() if isinstance(one, Tuner)}
        if not tuners or not len(split.valid):
            return {}
        requests = held_out_requests((split.valid,), seed, TUNING)
        fold, made = Fold(stages, tuple(request_batches(requests))), {}
        for position, step in enumerate(self.parsed(stages).stages):
            for name in [leaf.title for leaf in leaves(step) if leaf.title in tuners]:
                made[name] = tuners[name].tune(fold.stages[name], fold.batches, name)
                fold = replace(fold, stages={**fold.stages, name: made[name][0]})
            if len(made) == len(tuners):
                break
            fold = fold.through(self._offline(fold.stages)[position])
        return made

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
