"""Stages that only count, fitted again on later events; all others keep their weights."""

from dataclasses import replace

from shortlist.errors import ConfigError, DataError
from shortlist.grammar import Pipeline, Stage, leaves, map_leaves
from shortlist.pipeline import Recipe
from shortlist.train.context import TrainContext
from shortlist.train.preparation.event_weights import check_event_weights, with_weights
from shortlist.train.preparation.examples import check_examples, with_examples
from shortlist.train.registry import Renewer, Trainer, trainer_of


def recount(pipeline: Pipeline, recipe: Recipe, context: TrainContext) -> tuple[Pipeline, tuple[str, ...]]:
    """The pipeline with the counts of these events, and the names of the stages that changed.

    A trainer with `counts_only` fits its stage again. One with `renew` updates the counts inside its trained stage.
    """
    trainers = {
        name: trainer_of(one.type, one.train, f"{recipe.path}: [stages.{name}.train]")
        for name, one in recipe.stages.items()
    }
    counting = {name: one for name, one in trainers.items() if is_counts_only(one)}
    check_event_weights(recipe, counting, context.events)
    check_examples(recipe, counting, context.log)
    before = {stage.title: stage for stage in leaves(pipeline)}
    stages = dict(before)
    for name in (one for one in trainers if one in before):
        known = replace(context, fitted=dict(stages))
        stages[name] = _recounted(stages[name], trainers[name], recipe, name, known)
    changed = tuple(name for name, stage in stages.items() if stage is not before[name])
    counted = map_leaves(pipeline, lambda stage: stages[stage.title])
    assert isinstance(counted, Pipeline)
    return counted, changed


def is_counts_only(trainer: object) -> bool:
    """Whether a trainer takes no gradient steps, so that its stage can be fitted again at once."""
    return bool(getattr(trainer, "counts_only", False))


def _recounted(stage: Stage, trainer: Trainer, recipe: Recipe, name: str, context: TrainContext) -> Stage:
    known = with_examples(context, recipe, name, trainer) if is_counts_only(trainer) else context
    own = with_weights(known, recipe, name)
    try:
        if is_counts_only(trainer):
            fitted = trainer.fit({**recipe.stages[name].settings, "name": name}, own)
            size = {stage.size_field: vars(stage)[stage.size_field]} if stage.size_field else {}
            return fitted.renewed(**size)
        return trainer.renew(stage, own) if isinstance(trainer, Renewer) else stage
    except (ConfigError, DataError) as error:
        raise type(error)(f"{recipe.where(name)}: {error}") from error
