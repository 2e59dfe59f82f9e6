"""Walk through the stages of a pipeline."""

from collections.abc import Callable

from shortlist.errors import GrammarError
from shortlist.grammar.stage import Pipeline, Stage, kind_of


def as_pipeline(stage: Stage) -> Pipeline:
    """The stage as a pipeline that can run: it begins with a pool."""
    pipeline = stage if isinstance(stage, Pipeline) else Pipeline((stage,))
    if (kind := kind_of(pipeline.stages[0])) != "nominator":
        raise GrammarError(f"{pipeline!r} begins with a {kind}; begin with a nominator")
    return pipeline


def leaves(stage: Stage) -> list[Stage]:
    """The stages without children, in order."""
    return [leaf for child in stage.children() for leaf in leaves(child)] or [stage]


def map_leaves(stage: Stage, change: Callable[[Stage], Stage]) -> Stage:
    """The same stage with `change` applied to every leaf."""
    return stage.map(lambda child: map_leaves(child, change)) if stage.children() else change(stage)
