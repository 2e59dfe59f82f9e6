"""The sizes of a pipeline that can be changed without training: limits, cuts and beams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shortlist.grammar import Pipeline, Pool, Stage

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)

Key = tuple[str, str]  # a stage and its knob: limit, cut or beam
Changes = Mapping[Key, int]


@dataclass(frozen=True)
class Size:
    """One size and its current value: `limit` of a nominator, `cut` after a stage, `beam` of a tree."""

    stage: str
    knob: str
    value: int
    least: int
    most: int

    @property
    def key(self) -> Key:
        return self.stage, self.knob

    def scaled(self, factor: float) -> int:
        """The current value times a factor, within its range."""
        if factor == 1:
            return self.value
        return max(min(round(self.value * factor), self.most), min(self.least, self.value))

    def others(self, factors: tuple[float, ...] = FACTORS) -> list[int]:
        """Other values than the current one, the nearest first."""
        values = {self.scaled(factor) for factor in factors} - {self.value}
        return sorted(values, key=lambda size: (max(size / self.value, self.value / size), size))


def sizes_of(pipeline: Pipeline, k: int, n_items: int) -> tuple[Size, ...]:
    """Every size that can be changed; that of the last stage stays, so that slates keep their k items.

    A cut is never below k, a limit never above the catalogue. Sizes inside of a nested pipeline stay too.
    """
    last = len(pipeline.stages) - 1
    return tuple(
        size
        for number, stage in enumerate(pipeline.stages)
        for size in _sizes(stage, k, n_items, number == last)
    )


def with_sizes(pipeline: Pipeline, changes: Changes) -> Pipeline:
    """The pipeline with other sizes."""
    return pipeline.map(lambda stage: _with_sizes(stage, changes))


def as_expression(stage: str, knob: str, value: int) -> str:
    """A size as in a pipeline's expression."""
    return f"{stage} beam {value}" if knob == "beam" else f"{stage} % {value}"


def as_toml(pipeline: Pipeline, changes: Changes) -> str:
    """The lines of the pipeline's TOML file that change."""
    beams = [
        f"\n[stages.{stage}]\nbeam = {value}" for (stage, knob), value in changes.items() if knob == "beam"
    ]
    return "\n".join([f'pipeline = "{pipeline!r}"', *beams])


def _sizes(stage: Stage, k: int, n_items: int, last: bool) -> Iterator[Size]:
    if isinstance(stage, Pipeline):
        return
    pool = isinstance(stage, Pool)
    for child in stage.children():
        yield from _sizes(child, 1 if pool else k, n_items, last and not pool)
    for knob in stage.knobs():
        cut = knob.name == "k"
        if knob.rule == "scale" and not (cut and last):
            value, least = int(knob.value), k if cut else knob.least
            yield Size(stage.title, _label(knob.name), value, least, max(n_items, value))


def _with_sizes(stage: Stage, changes: Changes) -> Stage:
    if isinstance(stage, Pipeline):
        return stage
    stage = stage.map(lambda child: _with_sizes(child, changes))
    sizes = {knob.name: changes.get((stage.title, _label(knob.name))) for knob in stage.knobs()}
    fields = {name: value for name, value in sizes.items() if value is not None}
    return stage.renewed(**fields) if fields else stage


def _label(knob: str) -> str:
    return "cut" if knob == "k" else knob
