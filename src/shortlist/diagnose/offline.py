"""A pipeline as it is asked by the hundred: nobody is in a hurry, and what was cut can be told from what was judged."""

from dataclasses import replace

from shortlist.grammar import Pipeline, Pool, Stage, Top, as_pipeline, kind_of
from shortlist.pipeline.guards import Guard, Optional, Within


def offline(pipeline: Stage) -> Pipeline:
    """The same pipeline without time limits, and with cuts outside of guards.

    A limit of milliseconds is meant for single requests: a batch of them would be late, and answered otherwise.
    `Optional(x % 5)` passes on what `Optional(x) % 5` does, but only the latter shows what x judged before its cut.
    """
    calm = _calmed(as_pipeline(pipeline))
    assert isinstance(calm, Pipeline)
    return calm


def hurried(stage: Stage) -> list[str]:
    """The names of stages that have a time limit."""
    if isinstance(stage, Pipeline | Pool):
        inner = stage.stages if isinstance(stage, Pipeline) else stage.parts
        return [name for one in inner for name in hurried(one)]
    if isinstance(stage, Within):
        return [stage.title, *hurried(stage.inner)]
    return hurried(stage.inner) if isinstance(stage, Top | Guard) else []


def _calmed(stage: Stage) -> Stage:
    if isinstance(stage, Pipeline):
        return replace(stage, stages=tuple(map(_calmed, stage.stages)))
    if isinstance(stage, Pool):
        return replace(stage, parts=tuple(map(_calmed, stage.parts)))
    if isinstance(stage, Top):
        return _cut(_calmed(stage.inner), stage.k)
    return _guarded(stage) if isinstance(stage, Guard) else stage


def _guarded(stage: Guard) -> Stage:
    inner = _calmed(stage.inner)
    if isinstance(inner, Top) and kind_of(inner) != "nominator":
        return _cut(Optional(inner.inner, name=stage.name), inner.k)
    return Optional(inner, name=stage.name)


def _cut(stage: Stage, k: int) -> Top:
    """One cut where two stood one in the other."""
    return Top(stage.inner, min(stage.k, k)) if isinstance(stage, Top) else Top(stage, k)
