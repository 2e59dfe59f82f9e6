"""A stage, and what the operators make of stages: a cut, a pool, a pipeline."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from torch import Tensor

from shortlist.data import Candidates, Query, merge
from shortlist.errors import GrammarError
from shortlist.grammar.knob import Knob
from shortlist.settings import Setting, check_fields, settings_of

KINDS = "Nominator, Filter, Hydrator, Scorer or Selector"


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a pipeline: a request and the candidates so far -> candidates."""

    kind: ClassVar[str] = "stage"
    child_field: ClassVar[str] = ""  # field that holds the sub-stages: one stage or a tuple of them
    size_field: ClassVar[str] = ""  # field that `%` sets; without one, `%` cuts by score

    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self, self.title)

    @abstractmethod
    def __call__(self, query: Query, found: Candidates) -> Candidates: ...

    @property
    def title(self) -> str:
        """The name in traces and expressions: the given name, or the class name."""
        return self.name or type(self).__name__.lower()

    def __rshift__(self, then: "Stage") -> "Pipeline":
        return Pipeline((*_flat(self), *_flat(_stage(then))))

    def __add__(self, other: "Stage") -> "Pool":
        return Pool((*_parts(self), *_parts(_stage(other))))

    def __mod__(self, k: int) -> "Stage":
        return self.at_most(_positive(k, self.title))

    def at_most(self, k: int) -> "Stage":
        """This stage with at most k candidates."""
        return self.renewed(**{self.size_field: k}) if self.size_field else Top(self, k)

    @property
    def capacity(self) -> int | None:
        """The largest number of candidates after this stage, None if it does not cut or select."""
        return None

    def sized(self, k: int) -> "Stage":
        """This stage with k in place of its own cut."""
        return self % k

    def children(self) -> tuple["Stage", ...]:
        """The direct sub-stages; empty for a leaf."""
        inner = self.__dict__.get(self.child_field, ())
        return (inner,) if isinstance(inner, Stage) else inner

    def map(self, change: Callable[["Stage"], "Stage"]) -> Self:
        """The same stage with `change` applied to every child."""
        changed: Any = tuple(map(change, self.children()))
        single = isinstance(self.__dict__.get(self.child_field), Stage)
        return self.renewed(**{self.child_field: changed[0] if single else changed}) if changed else self

    def knobs(self) -> tuple[Knob, ...]:
        """The settings of this stage, without its children, that can be changed without training."""
        return (Knob(self.size_field, self.__dict__[self.size_field], "scale"),) if self.size_field else ()

    def switched_off(self, knob: str) -> "Stage":
        """This stage without the effect of one of its knobs."""
        return self.renewed(**{knob: 0})

    def pool_scores(self, name: str) -> "Stage | None":
        """The stage that scores the pool with the nominator inside this one; None where it does not score the pool."""
        made = [one for child in self.children() if (one := child.pool_scores(name)) is not None]
        return self.map(lambda _: made[0]) if len(made) == 1 else None

    def expression(self) -> str:
        """This stage in the repr of a pipeline."""
        sized = f" % {self.__dict__[self.size_field]}" if self.size_field else ""
        return f"{self.name}{sized}" if self.name else repr(self)

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        """The settings a TOML table may hold: the table gives the name, the expression gives the sizes."""
        return tuple(one for one in settings_of(cls) if one.name not in ("name", "limit", "k"))

    def settings(self) -> dict[str, Any]:
        """The plain values that configure this stage, as in TOML."""
        return {f.name: value for f in fields(self) if _is_setting(value := self.__dict__[f.name])}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of this stage, as in an artifact."""
        return {f.name: value for f in fields(self) if isinstance(value := self.__dict__[f.name], Tensor)}

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        """Raise ArtifactError if tensors or settings do not fit a catalogue of this size and these nominators.

        A loaded bundle is checked with it. A stage that indexes with its tensors checks them here.
        """

    def renewed(self, **changes: Any) -> Self:
        """The same stage with some fields changed."""
        return replace(self, **changes)

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Rebuild the stage from its settings and tensors."""
        parts: dict[str, Any] = {**settings, **tensors}
        return cls(**parts)

    def __repr__(self) -> str:
        if self.children():
            return self.expression()
        shown = (f"{name}={value!r}" for name, value in self.settings().items() if name != "name" or value)
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Top(Stage):
    """A stage, then only the k best by score."""

    kind: ClassVar[str] = "top"
    child_field: ClassVar[str] = "inner"

    inner: Stage
    k: int

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return self.inner(query, found).best(self.k)

    def knobs(self) -> tuple[Knob, ...]:
        return Knob("k", self.k, "scale"), Knob("k", self.k, "off")

    @property
    def capacity(self) -> int:
        return self.k

    def sized(self, k: int) -> Stage:
        return self.inner % k

    def switched_off(self, knob: str) -> Stage:
        return bare(self)

    def pool_scores(self, name: str) -> Stage | None:
        return self.inner.pool_scores(name)

    @property
    def title(self) -> str:
        return self.inner.title

    def expression(self) -> str:
        inner = self.inner.expression()
        return f"({inner}) % {self.k}" if isinstance(self.inner, Pool | Top) else f"{inner} % {self.k}"


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Stage):
    """Nominators side by side; an item that two of them nominate belongs to the first."""

    kind: ClassVar[str] = "nominator"
    child_field: ClassVar[str] = "parts"

    parts: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise GrammarError("a pool needs at least one nominator")
        for part in self.parts:
            if kind_of(part) != "nominator":
                raise GrammarError(f"only nominators can be pooled, {part.title!r} is a {kind_of(part)}")
        _distinct([part.title for part in self.parts], "nominators of a pool")

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return self.pooled(query, [part(query, found) for part in self.parts])

    def pooled(self, query: Query, nominated: Sequence[Candidates]) -> Candidates:
        """The candidates of all parts merged, each item once, and scored by the parts with `score_pool`."""
        found = merge(nominated, [part.title for part in self.parts])
        skipped = {note.stage for note in found.notes if note.what == "degraded"}
        for scorer in self._scorers:
            found = found if scorer.title in skipped else scorer(query, found)
        return found

    @cached_property
    def _scorers(self) -> tuple[Stage, ...]:
        """The stages that score the whole pool, each with the guards of its nominator."""
        made = (part.pool_scores(part.title) for part in self.parts)
        return tuple(one for one in made if one is not None)

    def pool_scores(self, name: str) -> None:
        """Several stages make the scores of a pool."""

    def expression(self) -> str:
        return " + ".join(part.expression() for part in self.parts)


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline(Stage):
    """A sequence of stages; itself a stage, and a nominator when it begins with one."""

    child_field: ClassVar[str] = "stages"

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise GrammarError("a pipeline needs at least one stage")
        # A lone nominator becomes a pool of one, so that every pipeline begins with a pool.
        object.__setattr__(self, "stages", (_pooled(self.stages[0]), *self.stages[1:]))
        for stage in self.stages:
            if kind_of(stage) == "stage":
                raise GrammarError(f"{type(stage).__name__} has no kind: derive it from {KINDS}")
        for stage in self.stages[1:]:
            if kind_of(stage) == "nominator":
                raise GrammarError(f"nominator {stage.title!r} after >>: pool it with + before the first >>")
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
        first = bare(self.stages[0])
        return first.parts if isinstance(first, Pool) else ()

    def pool_scores(self, name: str) -> None:
        """Several stages make the scores of a pipeline."""

    def expression(self) -> str:
        return f"({self!r})"

    def __repr__(self) -> str:
        return " >> ".join(stage.expression() for stage in self.stages)


def kind_of(stage: Stage) -> str:
    """The kind of a stage: a pipeline that begins with a nominator is one, a cut has the kind of what it cuts."""
    if isinstance(stage, Pipeline):
        return "nominator" if kind_of(stage.stages[0]) == "nominator" else "pipeline"
    if isinstance(stage, Top):
        return kind_of(stage.inner)
    return stage.kind


def bare(stage: Stage) -> Stage:
    """The stage without the cuts around it."""
    return bare(stage.inner) if isinstance(stage, Top) else stage


def _stage(value: object) -> Stage:
    if isinstance(value, Stage):
        return value
    hint = f"; make one with {value.__name__}(...)" if isinstance(value, type) else ""
    raise GrammarError(f"expected a stage beside + or >>, got {value!r}{hint}")


def _flat(stage: Stage) -> tuple[Stage, ...]:
    return stage.stages if isinstance(stage, Pipeline) else (stage,)


def _pooled(stage: Stage) -> Stage:
    return Pool((stage,)) if kind_of(stage) == "nominator" and not isinstance(bare(stage), Pool) else stage


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
        return all(map(_is_setting, value))
    return isinstance(value, str | int | float | bool)
