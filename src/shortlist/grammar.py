"""The grammar of pipelines: five kinds of stages, and three operators to put them together.

    tree % 500 + popular % 50 >> Seen() >> rank % 50 >> Diverse(0.3) % 10

`a + b` pools nominators, `a % k` lets at most k through, `a >> b` is a then b. Python binds `%` tighter than `+`
and `+` tighter than `>>`, so a pipeline needs no parentheses.

A kind returns only what it owns: a filter can only say no, a scorer can only give numbers, a selector can only
choose among what is there. What a stage must not do, it has no way to do.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query, merge
from shortlist.data.candidates import repeats
from shortlist.errors import GrammarError


@dataclass(frozen=True, eq=False)
class Stage:
    """One step from a request and what was found so far to what is found now."""

    kind: ClassVar[str] = "stage"
    # Of settings, by name: the types of those that are no field, the least and the most, the words they may say.
    extra_settings: ClassVar[Mapping[str, Any]] = {}
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    name: str = field(default="", kw_only=True)

    @abstractmethod
    def __call__(self, query: Query, found: Candidates) -> Candidates: ...

    @property
    def title(self) -> str:
        """The name in traces and expressions: the given one, or that of the class."""
        return self.name or type(self).__name__.lower()

    def __rshift__(self, then: "Stage") -> "Pipeline":
        return Pipeline((*_flat(self), *_flat(_stage(then))))

    def __add__(self, other: "Stage") -> "Pool":
        return Pool((*_parts(self), *_parts(_stage(other))))

    def __mod__(self, k: int) -> "Stage":
        return self.at_most(_positive(k, self.title))

    def at_most(self, k: int) -> "Stage":
        """This stage, then only the k best by score."""
        return Top(self, k)

    def expression(self) -> str:
        """How this stage stands in the repr of a pipeline."""
        return self.name or repr(self)

    def settings(self) -> dict[str, Any]:
        """The plain values that configure this stage, as they stand in TOML."""
        return {f.name: value for f in fields(self) if _is_setting(value := self.__dict__[f.name])}

    def tensors(self) -> dict[str, Tensor]:
        """What the stage has learned or was given, as it stands in an artifact."""
        return {f.name: value for f in fields(self) if isinstance(value := self.__dict__[f.name], Tensor)}

    def renewed(self, **changes: Any) -> Self:
        """The same stage with some fields changed."""
        return replace(self, **changes)

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The stage back from its settings and tensors."""
        parts: dict[str, Any] = {**settings, **tensors}
        return cls(**parts)

    def __repr__(self) -> str:
        told = (f"{name}={value!r}" for name, value in self.settings().items() if name != "name" or value)
        return f"{type(self).__name__}({', '.join(told)})"


@dataclass(frozen=True, eq=False, repr=False)
class Nominator(Stage):
    """Proposes items from the whole catalogue, at most `limit` for a request."""

    kind: ClassVar[str] = "nominator"

    limit: int = field(default=100, kw_only=True)

    @abstractmethod
    def nominate(self, query: Query) -> Candidates:
        """Items with scores, best first; negative items are empty places."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        named = self.nominate(query)
        sunk = named.nonfinite_last(self.title)
        return sunk.best(self.limit) if sunk is not named or named.shape[1] > self.limit else named

    def at_most(self, k: int) -> Stage:
        return replace(self, limit=k)

    def expression(self) -> str:
        return f"{super().expression()} % {self.limit}" if self.name else repr(self)


@dataclass(frozen=True, eq=False, repr=False)
class Filter(Stage):
    """Says no to candidates, and nothing else."""

    kind: ClassVar[str] = "filter"

    @abstractmethod
    def keep(self, query: Query, found: Candidates) -> Tensor:
        """True where a candidate may stay [B, K]."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.keep(self.keep(query, found))


@dataclass(frozen=True, eq=False, repr=False)
class Hydrator(Stage):
    """Adds columns to candidates, and nothing else."""

    kind: ClassVar[str] = "hydrator"

    @abstractmethod
    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        """Named columns, each [B, K]."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.add(self.columns(query, found))


@dataclass(frozen=True, eq=False, repr=False)
class Scorer(Stage):
    """Gives every candidate a number, the better the higher; it cannot drop or reorder."""

    kind: ClassVar[str] = "scorer"

    @abstractmethod
    def score(self, query: Query, found: Candidates) -> Tensor:
        """A number per candidate [B, K]; what stands at invalid places is ignored."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.score(self.score(query, found).to(torch.float32)).nonfinite_last(self.title)


@dataclass(frozen=True, eq=False, repr=False)
class Selector(Stage):
    """Chooses at most `k` candidates and their order."""

    kind: ClassVar[str] = "selector"

    k: int = field(default=10, kw_only=True)

    @abstractmethod
    def select(self, query: Query, found: Candidates) -> Tensor:
        """Positions of the chosen, best first [B, k]; negative for an empty place."""

    def remark(self, query: Query, found: Candidates, positions: Tensor) -> Mapping[str, Tensor]:
        """What is worth knowing of each choice, as columns [B, k]; a propensity, say."""
        return {}

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        positions = self.select(query, found)[:, : self.k if found.shape[1] else 0]
        positions = positions.masked_fill(repeats(positions), -1)
        return found.take(positions).add(self.remark(query, found, positions))

    def at_most(self, k: int) -> Stage:
        return replace(self, k=k)

    def expression(self) -> str:
        return f"{super().expression()} % {self.k}" if self.name else repr(self)


@dataclass(frozen=True, eq=False, repr=False)
class Top(Stage):
    """A stage, then only the k best by score."""

    kind: ClassVar[str] = "top"

    inner: Stage
    k: int

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return self.inner(query, found).best(self.k)

    @property
    def title(self) -> str:
        return self.inner.title

    def expression(self) -> str:
        inner = self.inner.expression()
        return f"({inner}) % {self.k}" if isinstance(self.inner, Pool | Top) else f"{inner} % {self.k}"

    def __repr__(self) -> str:
        return self.expression()


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Stage):
    """Nominators side by side; what two of them name belongs to the first."""

    kind: ClassVar[str] = "nominator"

    parts: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise GrammarError("a pool needs at least one nominator")
        for part in self.parts:
            if kind_of(part) != "nominator":
                raise GrammarError(
                    f"only nominators can be pooled with +, {part.title!r} is a {kind_of(part)}"
                )
        _distinct([part.title for part in self.parts], "nominators of a pool")

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return self.pooled([part(query, found) for part in self.parts])

    def pooled(self, named: Sequence[Candidates]) -> Candidates:
        """One field of candidates from what each part named."""
        return merge(named, [part.title for part in self.parts])

    @property
    def title(self) -> str:
        return self.name or "pool"

    def expression(self) -> str:
        return " + ".join(part.expression() for part in self.parts)

    def __repr__(self) -> str:
        return self.expression()


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline(Stage):
    """Stages one after the other; itself a stage, and a nominator when it begins with one."""

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise GrammarError("a pipeline needs at least one stage")
        # A lone nominator becomes a pool of one, so that every pipeline begins alike.
        object.__setattr__(self, "stages", (_pooled(self.stages[0]), *self.stages[1:]))
        for stage in self.stages:
            if kind_of(stage) == "stage":
                kinds = "Nominator, Filter, Hydrator, Scorer or Selector"
                raise GrammarError(
                    f"{type(stage).__name__} is none of the five kinds: derive it from {kinds}"
                )
        for stage in self.stages[1:]:
            if kind_of(stage) == "nominator":
                raise GrammarError(
                    f"nominator {stage.title!r} stands after >>: pool it with + before the first >>"
                )
        _distinct([stage.title for stage in self.stages], "stages of a pipeline")

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        for stage in self.stages:
            found = stage(query, found)
        return found

    def at_most(self, k: int) -> Stage:
        return replace(self, stages=(*self.stages[:-1], self.stages[-1] % k))

    @cached_property
    def nominators(self) -> tuple[Stage, ...]:
        """The parts of the pool the pipeline begins with."""
        first = _bare(self.stages[0])
        return first.parts if isinstance(first, Pool) else ()

    @property
    def title(self) -> str:
        return self.name or "pipeline"

    def expression(self) -> str:
        return f"({self!r})"

    def __repr__(self) -> str:
        return " >> ".join(stage.expression() for stage in self.stages)


def kind_of(stage: Stage) -> str:
    """The kind a stage counts as: a pipeline that begins with nominators is one, a cut is what it cuts."""
    if isinstance(stage, Pipeline):
        return "nominator" if kind_of(stage.stages[0]) == "nominator" else "pipeline"
    if isinstance(stage, Top):
        return kind_of(stage.inner)
    return stage.kind


def as_pipeline(stage: Stage) -> Pipeline:
    """A pipeline that can run: it begins with a pool."""
    pipeline = stage if isinstance(stage, Pipeline) else Pipeline((stage,))
    if (kind := kind_of(pipeline.stages[0])) != "nominator":
        raise GrammarError(f"{pipeline!r} begins with a {kind}; begin with a nominator")
    return pipeline


def _stage(thing: object) -> Stage:
    if isinstance(thing, Stage):
        return thing
    made = f"; make one with {thing.__name__}(...)" if isinstance(thing, type) else ""
    raise GrammarError(f"expected a stage beside + or >>, got {thing!r}{made}")


def _flat(stage: Stage) -> tuple[Stage, ...]:
    return stage.stages if isinstance(stage, Pipeline) else (stage,)


def _pooled(stage: Stage) -> Stage:
    return Pool((stage,)) if kind_of(stage) == "nominator" and not isinstance(_bare(stage), Pool) else stage


def _bare(stage: Stage) -> Stage:
    return _bare(stage.inner) if isinstance(stage, Top) else stage


def _parts(stage: Stage) -> tuple[Stage, ...]:
    return stage.parts if isinstance(stage, Pool) and not stage.name else (stage,)


def _positive(k: int, title: str) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise GrammarError(f"{title} % k: k must be a positive integer, got {k!r}")
    return k


def _distinct(titles: list[str], what: str) -> None:
    for title in titles:
        if titles.count(title) > 1:
            raise GrammarError(f"two {what} are called {title!r}; give one of them another name=...")


def _is_setting(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_setting(one) for one in value)
    return isinstance(value, str | int | float | bool)
