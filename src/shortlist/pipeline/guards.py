"""Stages that may fail or be late without failing the request, in sight of whoever reads the pipeline."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

from shortlist.data import Candidates, Note, Query
from shortlist.errors import GrammarError
from shortlist.grammar import Pipeline, Selector, Stage, Top, kind_of


@dataclass(frozen=True, eq=False, repr=False)
class Guard(Stage):
    """A stage the pipeline can do without: a nominator then names nothing, a scorer leaves the order as it was."""

    inner: Stage

    def __post_init__(self) -> None:
        if _lets_through(self.inner):
            raise GrammarError(
                f"{type(self).__name__}({self.inner.title}): a filter that may fail lets everything through; "
                "leave the guard away, so that the request fails instead"
            )

    @property
    def kind(self) -> str:  # type: ignore[override]
        return kind_of(self.inner)

    @property
    def title(self) -> str:
        return self.name or self.inner.title

    def at_most(self, k: int) -> Stage:
        fused = self.kind in ("nominator", "selector")
        return replace(self, inner=self.inner % k) if fused else super().at_most(k)

    def expression(self) -> str:
        return f"{type(self).__name__}({self.inner.expression()}{self.arguments()})"

    def arguments(self) -> str:
        """What stands after the inner stage in the expression."""
        return ""

    def without(self, query: Query, found: Candidates, cause: str) -> Candidates:
        """What goes on when the inner stage gave nothing, with a note of why."""
        note = Note(self.title, "degraded", cause)
        if self.kind == "nominator":
            return Candidates.none(len(query), query.history.device).note(note)
        return _spared(self.inner, found).note(note)

    def __repr__(self) -> str:
        return self.expression()


def _lets_through(stage: Stage) -> bool:
    """Whether something stays in the running that the stage would have said no to, were it left out."""
    if isinstance(stage, Pipeline):
        return kind_of(stage) != "nominator" and any(_lets_through(step) for step in stage.stages)
    return kind_of(stage) == "filter"


def _spared(stage: Stage, found: Candidates) -> Candidates:
    """What the stage would pass on without judging: its cuts stay, by the scores so far."""
    if isinstance(stage, Pipeline):
        for step in stage.stages:
            found = _spared(step, found)
        return found
    if isinstance(stage, Top | Guard):
        found = _spared(stage.inner, found)
    return found.best(stage.k) if isinstance(stage, Top | Selector) else found


@dataclass(frozen=True, eq=False, repr=False)
class Optional(Guard):
    """Go on without the inner stage when it raises; the trace says so."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        try:
            return self.inner(query, found)
        # Whatever a stage raises is its failure, and it goes into the trace with its words.
        except Exception as error:  # noqa: BLE001
            return self.without(query, found, f"{type(error).__name__}: {error}")


@dataclass(frozen=True, eq=False, repr=False)
class Within(Guard):
    """Go on without the inner stage when it takes longer than `ms`; the trace says so.

    Python cannot stop a thread, so a late call runs on; until it ends, further calls are answered without the inner
    stage, so that late work never piles up.
    """

    ms: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ms < float("inf"):
            raise GrammarError(f"Within({self.inner.title}, ms={self.ms}): ms must be positive and finite")

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        if any(not late.done() for late in self._late):
            return self.without(query, found, "busy: an earlier call is still running")
        self._late.clear()
        work = self._worker.submit(self.inner, query, found)
        try:
            return work.result(timeout=self.ms / 1e3)
        except TimeoutError:
            if work.done():  # it ended just now, or the stage itself raised TimeoutError
                return work.result()
            if not work.cancel():  # it has begun and cannot be stopped
                self._late.append(work)
            return self.without(query, found, f"timeout: not done within {self.ms:g} ms")

    def arguments(self) -> str:
        return f", ms={self.ms:g}"

    @cached_property
    def _worker(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"within-{self.title}")

    @cached_property
    def _late(self) -> list[Future[Candidates]]:
        return []
