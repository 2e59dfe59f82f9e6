"""The sizes of a pipeline that can be turned without training anything: limits, cuts and beams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shortlist.grammar import Nominator, Pipeline, Pool, Selector, Stage, Top
from shortlist.nominate import JTRNominator, TreeNominator
from shortlist.pipeline.guards import Guard

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)

Key = tuple[str, str]  # a stage, and what of it: limit, cut or beam
Changes = Mapping[Key, int]


@dataclass(frozen=True)
class Dial:
    """One size and where it stands; `limit` is what a nominator may name, `cut` what a stage lets through."""

    stage: str
    what: str
    value: int
    least: int
    most: int

    @property
    def key(self) -> Key:
        return self.stage, self.what

    def scaled(self, scale: float) -> int:
        """The size so many times the present one, within what makes sense."""
        if scale == 1:
            return self.value
        return max(min(round(self.value * scale), self.most), min(self.least, self.value))

    def others(self, scales: tuple[float, ...] = SCALES) -> list[int]:
        """Other sizes than the present one, the nearest first."""
        sizes = {self.scaled(scale) for scale in scales} - {self.value}
        return sorted(sizes, key=lambda size: (max(size / self.value, self.value / size), size))


def dials(pipeline: Pipeline, k: int, n_items: int) -> tuple[Dial, ...]:
    """Everything that can be turned; the last stage stays, so that slates of k keep their size.

    A cut never goes below k, a limit never above the catalogue. What stands inside a nested pipeline stays too.
    """
    return tuple(
        dial
        for number, stage in enumerate(pipeline.stages)
        for dial in _dials(stage, k, n_items, number == len(pipeline.stages) - 1)
    )


def turned(pipeline: Pipeline, changes: Changes) -> Pipeline:
    """The pipeline with other sizes."""
    return replace(pipeline, stages=tuple(_turned(stage, changes) for stage in pipeline.stages))


def in_words(what: str, stage: str, value: int) -> str:
    """A size as one would write it in a pipeline."""
    return f"{stage} beam {value}" if what == "beam" else f"{stage} % {value}"


def as_toml(pipeline: Pipeline, changes: Changes) -> str:
    """What to write into the TOML file of the pipeline."""
    beams = [
        f"\n[stages.{stage}]\nbeam = {value}" for (stage, what), value in changes.items() if what == "beam"
    ]
    return "\n".join([f'pipeline = "{pipeline!r}"', *beams])


def _dials(stage: Stage, k: int, n_items: int, last: bool) -> Iterator[Dial]:
    if isinstance(stage, Guard):
        yield from _dials(stage.inner, k, n_items, last)
    elif isinstance(stage, Pool):
        for part in stage.parts:
            yield from _dials(part, 1, n_items, last=False)
    elif isinstance(stage, Top | Selector):
        if isinstance(stage, Top):
            yield from _dials(stage.inner, k, n_items, last)
        if not last:
            yield Dial(stage.title, "cut", stage.k, k, max(n_items, stage.k))
    elif isinstance(stage, Nominator):
        yield Dial(stage.title, "limit", stage.limit, 1, max(n_items, stage.limit))
        if (beam := _beam(stage)) is not None:
            yield Dial(stage.title, "beam", *beam, max(n_items, *beam))


def _turned(stage: Stage, changes: Changes) -> Stage:
    if isinstance(stage, Guard):
        return replace(stage, inner=_turned(stage.inner, changes))
    if isinstance(stage, Pool):
        return replace(stage, parts=tuple(_turned(part, changes) for part in stage.parts))
    if isinstance(stage, Top):
        inner = _turned(stage.inner, changes)
        return replace(stage, inner=inner, k=changes.get((stage.title, "cut"), stage.k))
    if isinstance(stage, Selector):
        return replace(stage, k=changes.get((stage.title, "cut"), stage.k))
    if isinstance(stage, Nominator):
        fields: dict[str, Any] = {
            what: changes[stage.title, what] for what in ("limit", "beam") if (stage.title, what) in changes
        }
        return stage.renewed(**fields) if fields else stage
    return stage


def _beam(stage: Nominator) -> tuple[int, int] | None:
    """How wide a search down a tree really is, and the least that its limit allows; None without a tree."""
    if isinstance(stage, TreeNominator):
        least = -(-stage.limit // stage.index.tree.shape.branch)
        return max(stage.beam, least), least
    if isinstance(stage, JTRNominator):
        return stage.beam_width, stage.renewed(beam=1).beam_width
    return None
