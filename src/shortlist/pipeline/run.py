"""From a request to a slate: the page to frame."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Pipeline, Pool, Stage, Top, as_pipeline, kind_of
from shortlist.pipeline.trace import Part, Step, Trace

Clock = Callable[[], float]  # seconds


@dataclass(frozen=True, eq=False)
class Slate:
    """The answer to a batch of requests, and the account of how it came about."""

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
    """Answer requests: nominate, then one stage after the other, keeping the account of each."""
    pipeline = as_pipeline(pipeline)
    found = Candidates.none(len(query), query.history.device)
    steps = []
    for stage in pipeline.stages:
        step = _step(stage, query, found, clock)
        steps.append(step)
        found = step.after
    slate = _settled(pipeline, found)
    if slate is not found:
        steps[-1] = replace(steps[-1], after=slate)
    return Slate(slate, Trace(tuple(steps), query))


def _step(stage: Stage, query: Query, before: Candidates, clock: Clock) -> Step:
    """One stage at work: what it found, what it judged, what it passed on."""
    began = clock()
    parts: tuple[Part, ...] = ()
    inner = stage
    while isinstance(inner, Top):
        inner = inner.inner
    if isinstance(inner, Pool):
        judged, parts = _pool(inner, query, before, clock)
    else:
        judged = inner(query, before)
    after = _cut(stage, judged)
    ms = (clock() - began) * 1e3
    kind = kind_of(inner)
    judged = before if kind == "selector" else judged
    return Step(stage.title, kind, ms, before, judged, after, after.notes[len(before.notes) :], parts)


def _cut(stage: Stage, judged: Candidates) -> Candidates:
    return _cut(stage.inner, judged).best(stage.k) if isinstance(stage, Top) else judged


def _pool(pool: Pool, query: Query, before: Candidates, clock: Clock) -> tuple[Candidates, tuple[Part, ...]]:
    """Every nominator in turn, timed."""
    named, parts = [], []
    for part in pool.parts:
        began = clock()
        named.append(part(query, before))
        parts.append(Part(part.title, (clock() - began) * 1e3, named[-1]))
    return pool.pooled(named), tuple(parts)


def _settled(pipeline: Pipeline, found: Candidates) -> Candidates:
    """Best first, empty places last: the order a selector chose stands, any other is by score."""
    orders = (kind_of(stage) for stage in reversed(pipeline.stages))
    if next(kind for kind in orders if kind not in ("filter", "hydrator")) not in ("selector", "pipeline"):
        return found.best(found.shape[1])
    if not bool((found.valid[:, 1:] > found.valid[:, :-1]).any()):
        return found
    order = (~found.valid).to(dtype=found.slot.dtype).sort(dim=1, stable=True).indices
    return found.take(order)
