"""A pipeline with one of its stages exchanged for another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Filter, Nominator, Pipeline, Pool, Selector, Stage, Top
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.recipe import leaves

Change = Callable[[Stage], Stage]


@dataclass(frozen=True, eq=False, repr=False)
class Silent(Nominator):
    """Names nothing: its columns are there, and empty."""

    def nominate(self, query: Query) -> Candidates:
        return Candidates.none(len(query), query.history.device)


@dataclass(frozen=True, eq=False, repr=False)
class Everything(Nominator):
    """Names the whole catalogue, last what others do not name before."""

    n_items: int = 0

    def nominate(self, query: Query) -> Candidates:
        items = torch.arange(self.n_items, device=query.history.device).expand(len(query), -1)
        return Candidates.of(items, torch.zeros(items.shape, device=items.device))


@dataclass(frozen=True, eq=False, repr=False)
class Open(Filter):
    """Says no to nothing."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return torch.ones_like(found.valid)


@dataclass(frozen=True, eq=False, repr=False)
class Best(Selector):
    """Chooses by score alone."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        order = found.sort_keys().sort(dim=1, descending=True, stable=True).indices[:, : self.k]
        return torch.where(found.valid.gather(1, order), order, -1)


def exchanged(pipeline: Pipeline, name: str, change: Change) -> Pipeline:
    """The same pipeline with its plain stage of this name changed, cuts and guards around it as they are."""
    if name not in [leaf.title for leaf in leaves(pipeline)]:
        raise ConfigError(f"turn a knob: expected a stage of {pipeline!r}, got {name!r}")
    changed = _exchanged(pipeline, name, change)
    assert isinstance(changed, Pipeline)
    return changed


def without_nominator(pipeline: Pipeline, name: str) -> Pipeline:
    """The same pipeline in which one part of the pool names nothing."""
    return exchanged_part(pipeline, name, lambda part: Silent(name=part.title))


def with_everything(pipeline: Pipeline, n_items: int) -> Pipeline:
    """The same pipeline whose pool names the whole catalogue, and has no cut; what nominators say stays as it is."""
    pool = bare(pipeline.stages[0])
    assert isinstance(pool, Pool)
    names = {part.title for part in pool.parts} | {stage.title for stage in pipeline.stages}
    name = next(
        one for one in ("everything", *(f"everything_{n}" for n in range(len(names)))) if one not in names
    )
    whole = replace(pool, parts=(*pool.parts, Everything(n_items=n_items, limit=max(n_items, 1), name=name)))
    return replace(pipeline, stages=(whole, *pipeline.stages[1:]))


def exchanged_part(pipeline: Pipeline, name: str, change: Change) -> Pipeline:
    """The same pipeline with a whole part of its pool changed, whatever it is made of."""

    def inside(stage: Stage) -> Stage:
        if isinstance(stage, Top):
            return replace(stage, inner=inside(stage.inner))
        assert isinstance(stage, Pool)
        return replace(
            stage, parts=tuple(change(part) if part.title == name else part for part in stage.parts)
        )

    return replace(pipeline, stages=(inside(pipeline.stages[0]), *pipeline.stages[1:]))


def exchanged_step(pipeline: Pipeline, number: int, change: Change) -> Pipeline:
    """The same pipeline with a whole step changed, its cut included."""
    stages = list(pipeline.stages)
    stages[number] = change(stages[number])
    return replace(pipeline, stages=tuple(stages))


def bare(stage: Stage) -> Stage:
    """A stage without its cuts."""
    return bare(stage.inner) if isinstance(stage, Top) else stage


def _exchanged(stage: Stage, name: str, change: Change) -> Stage:
    if isinstance(stage, Pipeline):
        return replace(stage, stages=tuple(_exchanged(one, name, change) for one in stage.stages))
    if isinstance(stage, Pool):
        return replace(stage, parts=tuple(_exchanged(one, name, change) for one in stage.parts))
    if isinstance(stage, Top | Guard):
        return replace(stage, inner=_exchanged(stage.inner, name, change))
    return change(stage) if stage.title == name else stage
