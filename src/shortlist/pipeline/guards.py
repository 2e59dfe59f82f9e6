"""Guards: stages that may fail or be late without failing the request, visible in the pipeline's expression."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from shortlist.data import Candidates, Note, Query
from shortlist.errors import GrammarError
from shortlist.grammar import Pipeline, Stage, kind_of
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Guard(Stage):
    """A stage that may be skipped: a skipped nominator nominates nothing, a skipped scorer keeps the order."""

    child_field: ClassVar[str] = "inner"

    inner: Stage

    def __post_init__(self) -> None:
        super().__post_init__()
        if _contains_filter(self.inner):
            raise GrammarError(
                f"{type(self).__name__}({self.inner.title}): a skipped filter would let every candidate pass; "
                "remove the guard, so that the request fails instead"
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

    @property
    def capacity(self) -> int | None:
        return self.inner.capacity

    def sized(self, k: int) -> Stage:
        return self % k if self.capacity is None else replace(self, inner=self.inner.sized(k))

    def expression(self) -> str:
        return f"{type(self).__name__}({self.inner.expression()}{self.arguments()})"

    def arguments(self) -> str:
        """Text after the inner stage in the expression."""
        return ""

    def without(self, query: Query, found: Candidates, cause: str) -> Candidates:
        """The candidates that go on without the inner stage, with a note of the cause."""
        note = Note(self.title, "degraded", cause)
        if self.kind == "nominator":
            return Candidates.none(len(query), query.history.device).note(note)
        return _cuts_only(self.inner, found).note(note)


def _contains_filter(stage: Stage) -> bool:
    """Whether skipping the stage would keep candidates that one of its filters removes."""
    if isinstance(stage, Pipeline):
        return kind_of(stage) != "nominator" and any(map(_contains_filter, stage.children()))
    return kind_of(stage) == "filter"


def _cuts_only(stage: Stage, found: Candidates) -> Candidates:
    """The candidates after the stage's cuts alone, by the scores so far."""
    for child in stage.children():
        found = _cuts_only(child, found)
    return found if stage.capacity is None else found.best(stage.capacity)


@dataclass(frozen=True, eq=False, repr=False)
class Optional(Guard):
    """Skip the inner stage when it raises; the trace records it."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        try:
            return self.inner(query, found)
        # Any exception of a stage is its failure; the trace records its type and message.
        except Exception as error:  # noqa: BLE001
            return self.without(query, found, f"{type(error).__name__}: {error}")


@dataclass(frozen=True, eq=False, repr=False)
class Within(Guard):
    """Skip the inner stage when it takes longer than `ms`; the trace records it.

    Python cannot stop a thread, so a late call keeps running. Until it ends, further calls skip the inner stage, so
    that late work never piles up.
    """

    ms: float = setting(meaning="Time limit in milliseconds.")

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
