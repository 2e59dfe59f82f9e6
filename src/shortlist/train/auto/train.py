"""Train without a recipe: plan, choose nominators, train, compare with single models, keep the better."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data import Dataset, HeldOut, Split
from shortlist.data.held_out import Positions
from shortlist.errors import DataError
from shortlist.grammar import Pipeline, Stage, leaves
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.pipeline.expression import parse
from shortlist.pipeline.plan_report import PlanReport
from shortlist.pipeline.recipe import StageConfig
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.progress import Labelled, Progress, silent
from shortlist.train.auto.budget import CHOICE, REFITTED, RESERVE, Deadline
from shortlist.train.auto.choose import choose
from shortlist.train.auto.composed import SLATE, fused
from shortlist.train.auto.guarantee import (
    BASELINES,
    PartSlates,
    compared,
    nominator_named,
    part_slates,
    verdict,
    winner,
)
from shortlist.train.auto.parts import MORE_TIME
from shortlist.train.auto.plan import Plan
from shortlist.train.context import TrainContext
from shortlist.train.folds import Folds
from shortlist.train.pipeline import TrainedPipeline, context_of, train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.preparation.checks import check_before_training
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.registry import TRAINERS
from shortlist.train.split.choose import SplitChoice, choose_split, without_candidates

CHEAP = ("last_click",)  # compared even when the time is up
RANK = "rank"  # the ranker of a plan
SPLIT = "split"  # of the candidates over the nominators
DECIDING = 1000  # validation requests that decide what is saved, at least, if others are used in training
FAR = 0.8  # of the time limits: less time than that shortens them


@dataclass(frozen=True)
class AutoTraining:
    """One training of a plan."""

    plan: Plan
    recipe: Recipe  # of the plan, with the settings of the user
    dataset: Dataset
    split: Split
    seed: int = 0
    checkpoints: Path | None = None
    progress: Progress = silent
    refit: bool = True
    clock: Callable[[], float] = time.perf_counter

    def run(self) -> TrainedPipeline:
        """The measured pipeline or single model, with slates of all single models and the report of the plan."""
        warnings = check_before_training(self.recipe, self.dataset, self.split, self.seed, refit=self.refit)
        deadline = Deadline(60 * self.plan.minutes, self.clock() - self.plan.seconds, self.clock)
        stopping, deciding = parted(self.split.valid, self.seed)
        split = replace(self.split, valid=stopping)
        recipe, folds, report = self._chosen(split, deadline)
        left = deadline.left - RESERVE * deadline.seconds
        made = train_pipeline(
            within(recipe, self.plan.recipe, left, self.refit),
            self.dataset,
            self.seed,
            split,
            self.progress,
            checkpoint_dir=self.checkpoints,
            folds=folds,
        )
        made = _with(made, size_warnings=warnings)
        return self._guaranteed(made, report, deciding, deadline)

    def _chosen(self, split: Split, deadline: Deadline) -> tuple[Recipe, Folds | None, PlanReport]:
        """The recipe without nominators that add nothing, the out-of-fold candidates of those left, and the reasons.

        Without a retrieved target the ranker is left out too.
        """
        recipe, report = self.recipe, self.plan.report
        work = PipelineTrainer.of(recipe, TYPES, TRAINERS)
        if not work.later:
            return recipe, None, report
        context = context_of(self.dataset, split, self.seed, self.progress, self.checkpoints)
        folds = work.folds(context, split)
        if recipe.expression != self.plan.recipe.expression:
            return recipe, folds, _noted(report, "the pipeline was given")
        useless = nothing_to_rank(work, folds, context)
        if useless:
            left_out = {**report.left_out, RANK: f"{useless}; ranks are fused"}
            return without_ranker(recipe), None, replace(report, left_out=left_out)
        if deadline.late:
            return recipe, folds, _noted(report, f"no time was left for it; {MORE_TIME}")
        choice = choose(folds, self.seed, CHOICE * deadline.seconds, self.clock)
        report = replace(report, dropped=choice.dropped)
        if choice.dropped:
            recipe, folds = without_stages(recipe, tuple(choice.dropped)), folds.restricted(choice.kept)
        return self._split(recipe, folds, report, deadline)

    def _split(
        self, recipe: Recipe, folds: Folds, report: PlanReport, deadline: Deadline
    ) -> tuple[Recipe, Folds, PlanReport]:
        """The recipe with limits learned from the log, where these retrieve more targets of other users."""
        limits = limits_of(recipe.expression)
        if deadline.late or len(limits) < 2:
            return recipe, folds, report
        choice = choose_split(folds, limits, self.seed)
        if not choice.learned:
            return recipe, folds, replace(report, left_out={**report.left_out, SPLIT: choice.reason})
        recipe = with_limits(recipe, choice)
        nominated = PipelineTrainer.of(recipe, TYPES, TRAINERS).nominated(without_candidates(folds))
        return recipe, nominated, replace(report, reasons={**report.reasons, "pipeline": choice.reason})

    def _guaranteed(
        self, made: TrainedPipeline, report: PlanReport, deciding: Positions, deadline: Deadline
    ) -> TrainedPipeline:
        """The better of the pipeline and the best single model, both measured."""
        others, missing = self._others(made.recommender.pipeline, deadline)
        parts = {
            name: one for name, one in (("valid", self.split.valid), ("test", self.split.test)) if len(one)
        }
        found = {
            name: part_slates(
                made.recommender.pipeline, others, requests, Labelled(self.progress, f"{name}: ")
            )
            for name, requests in parts.items()
        }
        report = replace(report, left_out={**report.left_out, **missing})
        if "valid" in found:
            report = compared(report, found["valid"], self.seed, deciding)
        report = replace(report, verdict=verdict(report, only_nominator(made.recommender.pipeline)))
        best = winner(report)
        made = _with(made, plan=report, measured={name: one.measured for name, one in found.items()})
        slates = {name: one.baselines for name, one in found.items()}
        made = replace(made, recommender=replace(made.recommender, baselines=slates))
        return made if best is None else self._single(made, best, others, found)

    def _others(self, pipeline: Pipeline, deadline: Deadline) -> tuple[dict[str, Stage], dict[str, str]]:
        """Baselines that are no nominators of the pipeline, fitted on the training events; and why others are not."""
        known = {stage.title for stage in pipeline.nominators} | set(self.plan.left_out)
        context = context_of(self.dataset, self.split, self.seed, self.progress, self.checkpoints)
        fitted, missing = dict[str, Stage](), dict[str, str]()
        for name, kind in BASELINES.items():
            if name in known or not len(self.split.valid):
                continue
            if deadline.late and name not in CHEAP:
                missing[name] = f"no time was left to compare with it; {MORE_TIME}"
            else:
                fitted |= _baseline(name, kind, context)
        return fitted, missing

    def _single(
        self, made: TrainedPipeline, name: str, others: Mapping[str, Stage], found: Mapping[str, PartSlates]
    ) -> TrainedPipeline:
        """The single model as a recommender: it was fitted and measured already."""
        trained = made.recommender
        stage = nominator_named(trained.pipeline, name) or others[name]
        stage = stage.renewed(score_pool=False)  # there is no pool
        recipe = single_recipe(name, made.recommender.recipe, BASELINES.get(name, name))
        pipeline = parse(recipe.expression, {name: stage}, "auto: pipeline")
        history = {key: one for key, one in trained.about.training.items() if key == name}
        figures = {part: _alone(one, name).measured for part, one in found.items()}
        single = replace(trained, pipeline=pipeline, recipe=recipe, training_sample={})
        return _with(replace(made, recommender=single, folds=None), training=history, measured=figures)


def parted(requests: HeldOut, seed: int) -> tuple[HeldOut, Positions]:
    """Validation requests of the training, and the rows of those that decide what is saved.

    These are other ones where there are enough, because the training chose what is best on its own.
    """
    rows = np.arange(len(requests))
    if len(requests) < 2 * DECIDING:
        return requests, rows
    shuffled = np.random.default_rng((seed, 79)).permutation(rows)
    half = len(rows) // 2
    return requests.take(np.sort(shuffled[:half])), np.sort(shuffled[half:])


def within(recipe: Recipe, planned: Recipe, seconds: float, refit: bool) -> Recipe:
    """The recipe with shorter time limits, if those of the fits to come are together far above these seconds.

    Limits that differ from the planned ones were given by the user and stay.
    """
    limits = {name: 60 * one.train.get("minutes", 0) for name, one in recipe.stages.items()}
    fits = {name: 1.0 + refit * (1.0 if name == RANK else REFITTED) for name in limits}
    ours = [name for name, limit in limits.items() if limit and limit == _planned(planned, name)]
    seconds -= sum(fits[name] * limit for name, limit in limits.items() if name not in ours)
    longest = sum(fits[name] * limits[name] for name in ours)
    if seconds >= FAR * longest:
        return recipe
    shorter = {name: max(round(limits[name] * seconds / longest / 60, 2), 0.01) for name in ours}
    changed = with_settings(recipe, {f"stages.{name}.train.minutes": one for name, one in shorter.items()})
    return replace(changed, path=recipe.path)


def _planned(planned: Recipe, name: str) -> float | None:
    """Seconds of the time limit in a plan."""
    return 60 * planned.stages[name].train.get("minutes", 0) if name in planned.stages else None


def nothing_to_rank(work: PipelineTrainer, folds: Folds, context: TrainContext) -> str | None:
    """Why the ranker cannot be trained: no target of its requests is among the candidates."""
    trainer = work.trainers.get(RANK)
    if not isinstance(trainer, RankerTrainer):
        return None
    requests = replace(context, batches=folds.batches(context.seed))
    try:
        _ = trainer.training_set(requests, RANK).weights
    except DataError:
        return f"no target of {len(folds):,} training requests is among the candidates of the nominators"
    return None


def only_nominator(pipeline: Pipeline) -> str | None:
    """The nominator of a pipeline that has no other stage."""
    names = [stage.title for stage in leaves(pipeline)]
    return names[0] if len(names) == 1 else None


def _noted(report: PlanReport, why: str) -> PlanReport:
    """The report of a training without the choice of nominators."""
    return replace(report, left_out={**report.left_out, "choice of nominators": why})


def _alone(found: PartSlates, name: str) -> PartSlates:
    """The same slates, with a single model in the place of the pipeline."""
    metrics = {metric: {**own, "pipeline": own[name]} for metric, own in found.metrics.items()}
    return PartSlates({**found.slates, "pipeline": found.slates[name]}, metrics)


def _baseline(name: str, kind: str, context: TrainContext) -> dict[str, Stage]:
    recipe = single_recipe(name, None, kind)
    return PipelineTrainer.of(recipe, TYPES, TRAINERS).fit([name], context, "baseline: ")


def _with(made: TrainedPipeline, **facts: Any) -> TrainedPipeline:
    trained: Recommender = made.recommender
    return replace(made, recommender=replace(trained, about=replace(trained.about, **facts)))


def single_recipe(name: str, recipe: Recipe | None, kind: str) -> Recipe:
    """The recipe of one nominator alone, with its settings in a recipe that has it."""
    config = recipe.stages[name] if recipe is not None and name in recipe.stages else StageConfig(kind)
    known = {one.name for one in TYPES[config.type].declared()}
    settings = {key: value for key, value in config.settings.items() if key != "score_pool"}
    settings = {**({"exclude_seen": True} if "exclude_seen" in known else {}), **settings}
    return Recipe("auto", f"{name} % {SLATE}", {name: replace(config, settings=settings)}, {}, "auto")


def without_stages(recipe: Recipe, names: tuple[str, ...]) -> Recipe:
    """The recipe without some nominators."""
    pool, *rest = recipe.expression.split(" >> ")
    kept = [part for part in pool.split(" + ") if part.split(" % ")[0].strip() not in names]
    made = with_settings(recipe, {"pipeline": " >> ".join([" + ".join(kept), *rest])})
    return replace(made, path=recipe.path)


def limits_of(expression: str) -> dict[str, int]:
    """The limits of the nominators of a plan."""
    parts = (part.split(" % ") for part in expression.split(" >> ", maxsplit=1)[0].split(" + "))
    return {name.strip(): int(limit) for name, limit in parts}


def with_limits(recipe: Recipe, choice: SplitChoice) -> Recipe:
    """The recipe with other limits, and with a split behind the pool where there are segments."""
    _, *rest = recipe.expression.split(" >> ")
    pool = " + ".join(f"{name} % {limit}" for name, limit in choice.limits.items())
    split = [f"{SPLIT} % {choice.budget}"] if choice.split else []
    stages = {SPLIT: StageConfig(SPLIT, dict(choice.split))} if choice.split else {}
    return replace(recipe, expression=" >> ".join([pool, *split, *rest]), stages={**recipe.stages, **stages})


def without_ranker(recipe: Recipe) -> Recipe:
    """The recipe without its ranker and the settings of its training."""
    made = with_settings(recipe, {"pipeline": fused(recipe.expression.split(" >> ")[0])})
    stages = {name: one for name, one in made.stages.items() if name != RANK}
    return replace(made, path=recipe.path, stages=stages, training={})
