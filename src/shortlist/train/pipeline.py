"""From a recipe and a log to a recommender: every stage trained on what the stages before it pass on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Dataset, Query, Split
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import Filter, Hydrator, Nominator, Pipeline, Scorer, Selector, Stage
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.pipeline.expression import parse
from shortlist.pipeline.recipe import Types, leaves
from shortlist.pipeline.recommender import MEMORY, UserHistories
from shortlist.pipeline.settings import check_settings, plain_fields
from shortlist.progress import Progress, silent
from shortlist.train.context import RequestBatch, TrainContext, forget
from shortlist.train.loop.ranges import check_ranges, check_word
from shortlist.train.rankers.out_of_fold import WAYS, apart, rehearse, rounds_of
from shortlist.train.rankers.sample import recorded
from shortlist.train.registry import TRAINERS, Renewer, Trainer

Stages = dict[str, Stage]
Record = dict[str, Tensor]
REHEARSAL: Mapping[str, Any] = {"requests": int, "rehearse": str, "folds": int}


def train(
    recipe: Recipe,
    dataset: Dataset,
    seed: int = 0,
    split: Split | None = None,
    progress: Progress = silent,
    types: Types = TYPES,
    trainers: Mapping[str, type[Trainer]] = TRAINERS,
    keep: Path | None = None,
) -> Recommender:
    """Train all stages of a recipe on the learning part of a split.

    Nominators and filters are fitted twice: on the past alone, to rehearse requests that later stages learn from,
    and on all learning events, to serve. Long trainings keep how far they are in the folder `keep`, and go on from
    there when they are run again. How the training of each stage went stands in `about["training"]`.
    """
    split = dataset.split() if split is None else split
    check_settings(recipe.training, REHEARSAL, f"{recipe.path}: [train]")
    check_ranges(recipe.training)
    _check_way(recipe)
    makers = {name: _maker(recipe, name, trainers) for name in recipe.stages}
    went: dict[str, Any] = {}
    context = TrainContext(
        split.train,
        dataset.catalog,
        dataset.clock,
        seed,
        progress,
        split.valid,
        keep=keep,
        note=lambda name, facts: went.update({name: dict(facts)}),
    )
    kitchen = _PipelineTrainer(recipe, makers, types)
    early = kitchen.early()
    later: Stages = {}
    record: Record = {}
    if kitchen.later():
        later, record = _rehearsed(kitchen, context, split)
    stages = kitchen.fit_all(early, context, {}, "")
    known = replace(context, fitted=stages)
    later = {name: kitchen.renewed(name, stage, known) for name, stage in later.items()}
    pipeline = kitchen.parsed({**stages, **later})
    histories = remember(split)
    about = {
        "name": recipe.name,
        "data": dataset.name,
        "clock": dataset.clock,
        "ends": context.ends,
        "training": {name: went[name] for name in sorted(went)},
        "rehearsal": kitchen.rehearsal(),
    }
    return Recommender(pipeline, dataset.catalog, dataset.users, histories, about, record)


def remember(split: Split, last: int = MEMORY) -> UserHistories:
    """What each user is known to have met: learning events, and what held-out cases show of theirs."""
    edges = np.zeros(len(split.events) + 1, np.int64)  # +1 where a shown stretch begins, -1 where it ends
    for cases in (split.valid, split.test):
        np.add.at(edges, cases.starts, 1)
        np.add.at(edges, cases.cuts, -1)
    known = split.events.where(split.in_train | (edges[:-1].cumsum() > 0))
    kept = known.where(known.starts[1:][known.users] - np.arange(len(known)) <= last)
    return UserHistories(torch.from_numpy(kept.starts.astype(np.int64)), torch.from_numpy(kept.items.copy()))


def _rehearsed(kitchen: "_PipelineTrainer", context: TrainContext, split: Split) -> tuple[Stages, Record]:
    """The stages after the nominators, each learned on what would be passed to it; and a sample of that."""
    casts = _casts(kitchen, context, split)
    made: Stages = {}
    record: Record = {}
    waiting = kitchen.later()
    number = 0
    for position in range(len(kitchen.parsed(casts[0].stages).stages)):
        names = kitchen.parsed({**casts[0].stages, **made}).stages[position]
        for name in [leaf.title for leaf in leaves(names)]:
            if name in waiting:
                # Rounds are dealt out among the learners: none is judged by a stage that learned on the same requests.
                rounds = _together(casts, context.seed)
                share = tuple(rounds[number % len(rounds) :: kitchen.learners()]) if rounds else ()
                known = casts[0].stages | made
                made |= kitchen.fit_all([name], replace(casts[0].past, rounds=share), known, "")
                number += kitchen.learns(name)
                if kitchen.learns(name):
                    record |= recorded(name, made[name], share, context.seed)
        casts = [one.through(kitchen, made, position) for one in casts]
    return made, record


@dataclass(frozen=True, eq=False)
class _Fold:
    """Nominators and filters that rehearse, what they learned from, and the requests they never saw the answers of."""

    stages: Stages
    past: TrainContext
    rounds: tuple[RequestBatch, ...]

    def through(self, kitchen: "_PipelineTrainer", made: Stages, position: int) -> "_Fold":
        """The same one stage further."""
        step = kitchen.parsed({**self.stages, **made}).stages[position]
        with torch.no_grad():
            return replace(self, rounds=tuple(one.through(step) for one in self.rounds))


def _casts(kitchen: "_PipelineTrainer", context: TrainContext, split: Split) -> list[_Fold]:
    """One that learned from all users' earlier events, or one for every part of the users, taught by the others."""
    most = int(kitchen.option("requests", 20_000))
    rehearsal = rehearse(context.events, split.settings, context.seed, most)
    past = replace(context, events=rehearsal.past)
    # What only rehearses is not what will serve: nobody is told how its training went.
    quiet = replace(past, note=forget)
    if kitchen.way() == "earlier":
        stages = kitchen.fit_all(kitchen.early(), quiet, {}, "rehearsal: ")
        return [_Fold(stages, past, tuple(rounds_of(rehearsal.cases, kitchen.learners())))]
    kitchen.check_other_users()
    casts, folds = [], int(kitchen.option("folds", 2))
    for number, (events, cases) in enumerate(apart(rehearsal, folds, context.seed), start=1):
        stages = kitchen.fit_all(
            kitchen.early(), replace(quiet, events=events), {}, f"rehearsal {number} of {folds}: "
        )
        casts.append(_Fold(stages, past, tuple(rounds_of(cases, kitchen.learners()))))
    return casts


def _together(casts: list[_Fold], seed: int) -> list[RequestBatch]:
    """The rounds of all casts; those of several by lot, so that every learner, and who judges it, has some of each."""
    rounds = [one for cast in casts for one in cast.rounds]
    if len(casts) == 1:
        return rounds
    return [rounds[at] for at in np.random.default_rng((seed, 73)).permutation(len(rounds))]


@dataclass(frozen=True)
class _PipelineTrainer:
    """A recipe with its trainers: which stages come first, and how the expression reads while some are missing."""

    recipe: Recipe
    makers: Mapping[str, Trainer]
    types: Types

    def early(self) -> list[str]:
        """Nominators and filters: they learn from events alone."""
        return [
            name
            for name, one in self.recipe.stages.items()
            if issubclass(self.types[one.type], Nominator | Filter)
        ]

    def later(self) -> list[str]:
        """All others: they learn from rehearsed requests, or need what was learned before them."""
        return [name for name in self.recipe.stages if name not in self.early()]

    def learns(self, name: str) -> bool:
        """Whether a stage learns from rehearsed requests."""
        return issubclass(self.types[self.recipe.stages[name].type], Scorer)

    def learners(self) -> int:
        return max(sum(self.learns(name) for name in self.later()), 1)

    def option(self, name: str, default: float) -> float:
        return float(self.recipe.training.get(name, default))

    def way(self) -> str:
        """How the nominators of the rehearsal are kept from the answers."""
        return str(self.recipe.training.get("rehearse", WAYS[0]))

    def rehearsal(self) -> dict[str, Any]:
        """How later stages were rehearsed, in plain values."""
        told = {"rehearse": self.way(), "requests": int(self.option("requests", 20_000))}
        return told | ({"folds": int(self.option("folds", 2))} if self.way() != WAYS[0] else {})

    def check_other_users(self) -> None:
        """No stage may begin with the weights of a nominator: each of them learned from some who are asked."""
        for name in self.later():
            if getattr(self.makers[name], "start", ""):
                raise ConfigError(
                    f"{self.recipe.where(name)}: begins with the nominator {self.makers[name].start!r}, which learned "  # type: ignore[attr-defined]
                    "from users it would be asked for; use rehearse = 'earlier', or leave out start"
                )

    def fit_all(self, names: list[str], context: TrainContext, ready: Stages, label: str) -> Stages:
        """Fit stages in turn, each seeing those before it."""
        made: Stages = {}
        for name in names:
            settings = {**self.recipe.stages[name].settings, "name": name}
            seen = replace(context, fitted={**ready, **made}, progress=_labelled(context.progress, label))
            made[name] = self._fitted(name, settings, seen)
        return made

    def _fitted(self, name: str, settings: Mapping[str, Any], context: TrainContext) -> Stage:
        """A stage; what its trainer refuses is told with its place in the recipe."""
        try:
            return self.makers[name].fit(settings, context)
        except (ConfigError, DataError) as error:
            raise type(error)(f"{self.recipe.where(name)}: {error}") from error

    def renewed(self, name: str, stage: Stage, context: TrainContext) -> Stage:
        """A stage that learned in the rehearsal, knowing now what all events say."""
        maker = self.makers[name]
        return maker.renew(stage, context) if isinstance(maker, Renewer) else stage

    def parsed(self, stages: Stages) -> Pipeline:
        """The pipeline, a stand-in at every place whose stage is not ready."""
        known = {
            name: stages.get(name) or _stand_in(self.types[one.type], name)
            for name, one in self.recipe.stages.items()
        }
        return parse(self.recipe.expression, known, f"{self.recipe.path}: pipeline")


def _maker(recipe: Recipe, name: str, trainers: Mapping[str, type[Trainer]]) -> Trainer:
    ingredient = recipe.stages[name]
    if ingredient.type not in trainers:
        raise ConfigError(f"{recipe.where(name)}: no trainer for type {ingredient.type!r}; pass trainers=")
    kind = trainers[ingredient.type]
    check_settings(ingredient.train, plain_fields(kind), f"{recipe.path}: [stages.{name}.train]")
    plain = {
        key: tuple(value) if isinstance(value, list) else value for key, value in ingredient.train.items()
    }
    try:
        check_ranges(plain)
        return kind(**plain)
    except ConfigError as error:
        raise ConfigError(f"{recipe.path}: [stages.{name}.train]: {error}") from error


def _check_way(recipe: Recipe) -> None:
    try:
        check_word("rehearse", str(recipe.training.get("rehearse", WAYS[0])), WAYS)
    except ConfigError as error:
        raise ConfigError(f"{recipe.path}: [train]: {error}") from error


def _labelled(progress: Progress, label: str) -> Progress:
    return lambda what, done, total: progress(label + what, done, total)


def _stand_in(kind: type[Stage], name: str) -> Stage:
    if issubclass(kind, Scorer):
        return _PendingScorer(name=name)
    return _PendingSelector(name=name) if issubclass(kind, Selector) else _PendingHydrator(name=name)


@dataclass(frozen=True, eq=False, repr=False)
class _PendingScorer(Scorer):
    """Stands where a scorer will be."""

    def score(self, query: Query, found: Candidates) -> Tensor:
        return found.scores


@dataclass(frozen=True, eq=False, repr=False)
class _PendingSelector(Selector):
    """Stands where a selector will be."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        return found.sort_keys().sort(dim=1, descending=True, stable=True).indices


@dataclass(frozen=True, eq=False, repr=False)
class _PendingHydrator(Hydrator):
    """Stands where a hydrator will be."""

    empty: Mapping[str, Tensor] = field(default_factory=dict)

    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        return self.empty
