"""Where an item of interest went: named by whom, scored how, and which stage dropped it."""

from dataclasses import asdict, dataclass
from math import isfinite, isnan
from typing import Any

from shortlist.pipeline.trace import RETURNED, Step, Trace


@dataclass(frozen=True)
class Naming:
    """A nominator's word on the item."""

    nominator: str
    score: float | None  # None where it is no finite number
    rank: int  # from 1
    of: int


@dataclass(frozen=True)
class Passage:
    """What happened to the item at one stage."""

    stage: str
    kind: str
    verdict: str  # "named", "kept", "removed", "cut"
    score: float | None
    rank: int  # from 1, among those the stage judged; 0 for what a filter removed
    of: int
    threshold: float | None  # the lowest score that went on


@dataclass(frozen=True)
class Explanation:
    """The way of one item through one request; `dropped_at` is empty when it was returned."""

    item: int
    verdict: str  # "returned", "not nominated", "removed", "cut"
    dropped_at: str
    position: int  # in the slate from 1, 0 when not returned
    namings: tuple[Naming, ...]
    passages: tuple[Passage, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self, title: str) -> str:
        """The answer in words."""
        if self.verdict == "returned":
            return f"{title} was returned at position {self.position}."
        if self.verdict == "not nominated":
            return f"{title} was never in the running: no nominator named it."
        last = self.passages[-1]
        if self.verdict == "removed":
            return f"{title} was removed by the filter {self.dropped_at!r}."
        if last.kind == "selector" or last.score is None or last.threshold is None:
            return (
                f"{title} was not chosen by {self.dropped_at!r}; it stood at rank {last.rank} of {last.of}."
            )
        return (
            f"{title} was cut at {self.dropped_at!r}: rank {last.rank} of {last.of}, "
            f"score {last.score:.4g}, and {last.threshold:.4g} was needed."
        )


def explain(trace: Trace, item: int, row: int = 0) -> Explanation:
    """Follow `item` through the request at `row` of a traced run."""
    places = ((trace.named.items[row] == item) & trace.named.valid[row]).nonzero()
    if not len(places):
        return Explanation(item, "not nominated", trace.names[0], 0, (), ())
    place = int(places[0, 0])
    fate = int(trace.fate[row, place])
    last = len(trace.steps) - 1 if fate == RETURNED else fate
    passages = tuple(_passage(trace, number, row, place, fate) for number in range(last + 1))
    if fate == RETURNED:
        return Explanation(
            item, "returned", "", _position(trace, row, place), _namings(trace, row, place), passages
        )
    verdict = passages[-1].verdict
    return Explanation(item, verdict, trace.names[fate], 0, _namings(trace, row, place), passages)


def _position(trace: Trace, row: int, place: int) -> int:
    slate = trace.steps[-1].after
    return int((slate.valid[row] & (slate.slot[row] == place)).nonzero()[0, 0]) + 1


def _namings(trace: Trace, row: int, place: int) -> tuple[Naming, ...]:
    found = []
    for part in trace.steps[0].parts:
        score = float(trace.named.columns[f"{part.name}.score"][row, place])
        rank = float(trace.named.columns[f"{part.name}.rank"][row, place])
        if not isnan(rank):  # else this nominator was silent
            found.append(Naming(part.name, _finite(score), int(rank) + 1, int(part.count[row])))
    return tuple(found)


def _passage(trace: Trace, number: int, row: int, place: int, fate: int) -> Passage:
    step = trace.steps[number]
    there = int(step.judged.valid[row].sum())
    score, rank = float(trace.scores(number)[row, place]), int(trace.ranks(number)[row, place])
    return Passage(
        step.name,
        step.kind,
        _verdict(trace, number, row, place, fate),
        _finite(score),
        rank,
        there,
        _threshold(step, row),
    )


def _verdict(trace: Trace, number: int, row: int, place: int, fate: int) -> str:
    if fate != number:
        return "kept" if number else "named"
    return "removed" if bool(trace.removed_by_filter[row, place]) else "cut"


def _threshold(step: Step, row: int) -> float | None:
    return None if step.kind in ("filter", "hydrator", "selector") else _finite(float(step.threshold[row]))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
