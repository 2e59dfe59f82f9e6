"""Run a pipeline: a batch of requests -> slates and their trace."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Pipeline, Pool, Stage, Top, as_pipeline, bare, kind_of
from shortlist.pipeline.trace import Part, Step, Trace

Clock = Callable[[], float]  # seconds


@dataclass(frozen=True, eq=False)
class Slate:
    """The answer to a batch of requests and the trace of how it was computed."""

    candidates: Candidates
    trace: Trace

    @property
    def items(self) -> Tensor:
        """Item rows, best first, -1 for an empty place [B, k]."""
        return self.candidates.items.masked_fill(~self.candidates.valid, -1)

    @property
    def scores(self) -> Tensor:
        """Scores of the items, -inf for an empty place [B, k]."""
        return self.candidates.scores.masked_fill(~self.candidates.valid, float("-inf"))


def run(pipeline: Stage, query: Query, clock: Clock = perf_counter) -> Slate:
    """Answer requests: nominate, then apply one stage after the other, with a trace of each."""
    pipeline = as_pipeline(pipeline)
    found = Candidates.none(len(query), query.history.device)
    steps = []
    for stage in pipeline.stages:
        step = _step(stage, query, found, clock)
        steps.append(step)
        found = step.after
    slate = _ordered(pipeline, found)
    if slate is not found:
        steps[-1] = replace(steps[-1], after=slate)
    return Slate(slate, Trace(tuple(steps), query))


def _step(stage: Stage, query: Query, before: Candidates, clock: Clock) -> Step:
    """Apply one stage and record the candidates before and after it."""
    began = clock()
    parts: tuple[Part, ...] = ()
    inner = bare(stage)
    if isinstance(inner, Pool):
        found, parts = _pool(inner, query, before, clock)
    else:
        found = inner(query, before)
    after = _cut(stage, found)
    ms = (clock() - began) * 1e3
    kind = kind_of(inner)
    before_cut = before if kind == "selector" else found
    return Step(stage.title, kind, ms, before, before_cut, after, after.notes[len(before.notes) :], parts)


def _cut(stage: Stage, found: Candidates) -> Candidates:
    return _cut(stage.inner, found).best(stage.k) if isinstance(stage, Top) else found


def _pool(pool: Pool, query: Query, before: Candidates, clock: Clock) -> tuple[Candidates, tuple[Part, ...]]:
    """Apply every nominator, with its time."""
    parts = []
    for part in pool.parts:
        began = clock()
        nominated = part(query, before)
        parts.append(Part(part.title, (clock() - began) * 1e3, nominated))
    return pool.pooled(query, [part.nominated for part in parts]), tuple(parts)


def _ordered(pipeline: Pipeline, found: Candidates) -> Candidates:
    """Best first, empty places last: in the order of the last selector, or else by score."""
    orders = (kind_of(stage) for stage in reversed(pipeline.stages))
    if next(kind for kind in orders if kind not in ("filter", "hydrator")) not in ("selector", "pipeline"):
        return found.best(found.shape[1])
    if not bool((found.valid[:, 1:] > found.valid[:, :-1]).any()):
        return found
    order = (~found.valid).to(dtype=found.slot.dtype).sort(dim=1, stable=True).indices
    return found.take(order)
