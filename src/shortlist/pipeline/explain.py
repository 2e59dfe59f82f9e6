"""The path of one item through a request: its nominators, its scores, and the stage that dropped it."""

from dataclasses import dataclass
from math import isfinite, isnan

from shortlist.pipeline.trace import RETURNED, Step, Trace


@dataclass(frozen=True)
class Nomination:
    """Score and rank that a nominator gave the item."""

    nominator: str
    score: float | None  # None where it is not finite
    rank: int  # from 1
    of: int


@dataclass(frozen=True)
class StageOutcome:
    """What happened to the item at one stage."""

    stage: str
    kind: str
    verdict: str  # "nominated", "kept", "removed", "cut"
    score: float | None
    rank: int  # from 1, before the stage's cut; 0 for an item that a filter removed
    of: int
    threshold: float | None  # the lowest score that was kept


@dataclass(frozen=True)
class Explanation:
    """The path of one item through one request; `dropped_at` is empty when it was returned."""

    item: int
    verdict: str  # "returned", "not nominated", "removed", "cut"
    dropped_at: str
    position: int  # in the slate from 1, 0 when not returned
    nominations: tuple[Nomination, ...]
    outcomes: tuple[StageOutcome, ...]

    def sentence(self, title: str) -> str:
        """The explanation as one sentence."""
        if self.verdict == "returned":
            return f"{title} was returned at position {self.position}."
        if self.verdict == "not nominated":
            return f"{title} was not nominated by any nominator."
        last = self.outcomes[-1]
        if self.verdict == "removed":
            return f"{title} was removed by the filter {self.dropped_at!r}."
        if last.kind == "selector" or last.score is None or last.threshold is None:
            return f"{title} was not selected by {self.dropped_at!r}; its rank was {last.rank} of {last.of}."
        return (
            f"{title} was cut at {self.dropped_at!r}: rank {last.rank} of {last.of}, "
            f"score {last.score:.4g}, and {last.threshold:.4g} was needed."
        )


def explain(trace: Trace, item: int, row: int = 0) -> Explanation:
    """Follow `item` through the request at `row` of a traced run."""
    places = ((trace.nominated.items[row] == item) & trace.nominated.valid[row]).nonzero()
    if not len(places):
        return Explanation(item, "not nominated", trace.names[0], 0, (), ())
    place = int(places[0, 0])
    fate = int(trace.fate[row, place])
    last = len(trace.steps) - 1 if fate == RETURNED else fate
    nominations = _nominations(trace, row, place)
    outcomes = tuple(_outcome(trace, number, row, place, fate) for number in range(last + 1))
    if fate == RETURNED:
        return Explanation(item, "returned", "", _position(trace, row, place), nominations, outcomes)
    return Explanation(item, outcomes[-1].verdict, trace.names[fate], 0, nominations, outcomes)


def _position(trace: Trace, row: int, place: int) -> int:
    slate = trace.steps[-1].after
    return int((slate.valid[row] & (slate.slot[row] == place)).nonzero()[0, 0]) + 1


def _nominations(trace: Trace, row: int, place: int) -> tuple[Nomination, ...]:
    nominations = []
    for part in trace.steps[0].parts:
        score = float(trace.nominated.columns[f"{part.name}.score"][row, place])
        rank = float(trace.nominated.columns[f"{part.name}.rank"][row, place])
        if not isnan(rank):  # NaN: this nominator did not nominate the item
            nominations.append(Nomination(part.name, _finite(score), int(rank) + 1, int(part.count[row])))
    return tuple(nominations)


def _outcome(trace: Trace, number: int, row: int, place: int, fate: int) -> StageOutcome:
    step = trace.steps[number]
    return StageOutcome(
        step.name,
        step.kind,
        _verdict(trace, number, row, place, fate),
        _finite(float(trace.scores(number)[row, place])),
        int(trace.ranks(number)[row, place]),
        int(step.before_cut.valid[row].sum()),
        _threshold(step, row),
    )


def _verdict(trace: Trace, number: int, row: int, place: int, fate: int) -> str:
    if fate != number:
        return "kept" if number else "nominated"
    return "removed" if bool(trace.removed_by_filter[row, place]) else "cut"


def _threshold(step: Step, row: int) -> float | None:
    return None if step.kind in ("filter", "hydrator", "selector") else _finite(float(step.threshold[row]))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
