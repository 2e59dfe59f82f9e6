"""A pipeline with one of its stages replaced by another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Filter, Nominator, Pipeline, Pool, Stage, bare, leaves, map_leaves

Change = Callable[[Stage], Stage]


@dataclass(frozen=True, eq=False, repr=False)
class Silent(Nominator):
    """Nominates nothing; its columns exist and are empty."""

    def nominate(self, query: Query) -> Candidates:
        return Candidates.none(len(query), query.history.device)


@dataclass(frozen=True, eq=False, repr=False)
class Everything(Nominator):
    """Nominates the whole catalogue, after the items of the other nominators."""

    n_items: int = 0

    def nominate(self, query: Query) -> Candidates:
        items = torch.arange(self.n_items, device=query.history.device).expand(len(query), -1)
        return Candidates.of(items, torch.zeros(items.shape, device=items.device))


@dataclass(frozen=True, eq=False, repr=False)
class Open(Filter):
    """Removes nothing."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return torch.ones_like(found.valid)


def replace_stage(pipeline: Pipeline, name: str, change: Change) -> Pipeline:
    """The same pipeline with its leaf stage of this name changed; cuts and guards around it stay."""
    if name not in [leaf.title for leaf in leaves(pipeline)]:
        raise ConfigError(f"replace_stage: expected a stage of {pipeline!r}, got {name!r}")
    changed = map_leaves(pipeline, lambda leaf: change(leaf) if leaf.title == name else leaf)
    assert isinstance(changed, Pipeline)
    return changed


def replace_part(pipeline: Pipeline, name: str, change: Change) -> Pipeline:
    """The same pipeline with a whole part of its pool changed, also one that is a pipeline itself."""

    def inside(stage: Stage) -> Stage:
        if not isinstance(stage, Pool):
            return stage.map(inside)
        return stage.map(lambda part: change(part) if part.title == name else part)

    return replace(pipeline, stages=(inside(pipeline.stages[0]), *pipeline.stages[1:]))


def replace_step(pipeline: Pipeline, number: int, change: Change) -> Pipeline:
    """The same pipeline with a whole step changed, its cut included."""
    stages = list(pipeline.stages)
    stages[number] = change(stages[number])
    return replace(pipeline, stages=tuple(stages))


def without_nominator(pipeline: Pipeline, name: str) -> Pipeline:
    """The same pipeline in which one part of the pool nominates nothing."""
    return replace_part(pipeline, name, lambda part: Silent(name=part.title))


def with_full_catalog(pipeline: Pipeline, n_items: int) -> Pipeline:
    """The same pipeline whose pool holds the whole catalogue and has no cut; nominator columns stay as they are."""
    pool = bare(pipeline.stages[0])
    assert isinstance(pool, Pool)
    taken = {part.title for part in pool.parts} | {stage.title for stage in pipeline.stages}
    names = ("everything", *(f"everything_{n}" for n in range(len(taken))))
    name = next(name for name in names if name not in taken)
    whole = replace(pool, parts=(*pool.parts, Everything(n_items=n_items, limit=max(n_items, 1), name=name)))
    return replace(pipeline, stages=(whole, *pipeline.stages[1:]))
