"""A pipeline prepared for batches: no time limits, and cuts outside of guards."""

from shortlist.grammar import Pipeline, Stage, Top, as_pipeline, kind_of
from shortlist.pipeline.guards import Guard, Optional, Within


def offline(pipeline: Stage) -> Pipeline:
    """The same pipeline without time limits, and with cuts outside of guards.

    A limit of milliseconds is meant for a single request: a batch would exceed it and get another answer.
    `Optional(x % 5)` returns what `Optional(x) % 5` does, but only the latter shows the scores of x before its cut.
    """
    without_limits = _offline(as_pipeline(pipeline))
    assert isinstance(without_limits, Pipeline)
    return without_limits


def time_limited(stage: Stage) -> list[str]:
    """The names of stages with a time limit."""
    own = [stage.title] if isinstance(stage, Within) else []
    return [*own, *(name for child in stage.children() for name in time_limited(child))]


def _offline(stage: Stage) -> Stage:
    stage = stage.map(_offline)
    if isinstance(stage, Top):
        return _cut(stage.inner, stage.k)
    return _guarded(stage) if isinstance(stage, Guard) else stage


def _guarded(stage: Guard) -> Stage:
    inner = stage.inner
    if isinstance(inner, Top) and kind_of(inner) != "nominator":
        return _cut(Optional(inner.inner, name=stage.name), inner.k)
    return Optional(inner, name=stage.name)


def _cut(stage: Stage, k: int) -> Top:
    """One cut in place of two nested ones."""
    return Top(stage.inner, min(stage.k, k)) if isinstance(stage, Top) else Top(stage, k)
