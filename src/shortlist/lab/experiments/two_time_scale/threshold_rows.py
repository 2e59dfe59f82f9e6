"""Rows and claims of threshold curves of several seeds."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from shortlist.lab.experiments.two_time_scale.threshold_curve import Losses, ThresholdCurve
from shortlist.lab.result import Claim, Row, claim, row
from shortlist.metrics.moments import MOST_DRIFT
from shortlist.metrics.significance import paired

LOSS, SPEC = "negative log-likelihood", "two_time_scale 4"
HARDLY = ", hardly a prior"
KINDS = {
    "own": "own vector",
    "weak": f"own vector{HARDLY}",
    "mean": "mean vector",
    "recurrence": "recurrence",
}


def curve_rows(place: str, curves: Sequence[ThresholdCurve]) -> Iterator[Row]:
    """Moments by events in a half, losses by events before, and both kinds of thresholds."""
    for t in _shared([[one.moments.t for one in curve.halves] for curve in curves]):
        yield from _half_rows(place, curves, t)
    for t in _shared([[one.t for one in curve.losses] for curve in curves]):
        points = [_at(curve, t) for curve in curves]
        for kind, name in KINDS.items():
            values = [getattr(point, kind) for point in points]
            if all(value is not None for value in values):
                yield row(f"{name} on {place}", LOSS, [float(value.mean()) for value in values], float(t))
        yield row(place, "users of a loss", [float(len(point.own)) for point in points], float(t))
    for kind, other in (("own", "mean"), ("weak", "mean"), ("own", "recurrence"), ("weak", "recurrence")):
        found = [_crossing(curve, kind, other) for curve in curves]
        reached = [float(one) for one in found if one is not None]
        if len(reached) == len(found):
            yield row(place, f"threshold by loss, {KINDS[kind]} against {KINDS[other]}", reached)


def _half_rows(place: str, curves: Sequence[ThresholdCurve], t: int) -> Iterator[Row]:
    own = [next(one for one in curve.halves if one.moments.t == t) for curve in curves]
    for end, moments in (("", [one.moments for one in own]), (HARDLY, [one.weak for one in own])):
        yield row(place, f"split-half Q{end}", [one.q for one in moments], float(t))
        yield row(place, f"split-half V{end}", [one.v for one in moments], float(t))
        thresholds = [float(one.threshold) for one in moments if one.threshold is not None]
        if len(thresholds) == len(own):
            yield row(place, f"split-half threshold{end}", thresholds, float(t))
    yield row(place, "information Q", [one.information for one in own], float(t))
    yield row(place, "users of halves", [float(one.users) for one in own], float(t))
    for bins in zip(*(one.by_length for one in own), strict=True):
        values = [one.v for one in bins if one.v is not None]
        end = "or more" if bins[0].high is None else f"to {bins[0].high}"
        if len(values) == len(own):
            yield row(place, f"split-half V, users with {bins[0].low} {end} events", values, float(t))


def curve_claims(place: str, curves: Sequence[ThresholdCurve]) -> Iterator[Claim]:
    """Whether moments give a threshold, and whether own vectors are better from some number of events on."""
    if all(len(curve.halves) > 1 for curve in curves):
        yield from _moment_claims(place, curves)
    for kind, other in (("own", "mean"), ("weak", "mean"), ("own", "recurrence")):
        if other == "mean" or all(one.recurrence is not None for curve in curves for one in curve.losses):
            yield _crossing_claim(place, curves, kind, other)


def _moment_claims(place: str, curves: Sequence[ThresholdCurve]) -> Iterator[Claim]:
    sizes = ", ".join(str(one.moments.t) for one in curves[0].halves)
    note = f"largest ratio of split-half Q between halves of {sizes} events; at most {MOST_DRIFT:g}"
    for end, weak in (("", False), (HARDLY, True)):
        drift = max(curve.drift(weak) or 0.0 for curve in curves)
        name = f"{place}: split-half Q is constant{end}"
        yield claim(name, f"{SPEC}.1", drift <= MOST_DRIFT, drift, note)
    last = [curve.halves[-1] for curve in curves]
    ratios = [one.information / one.moments.q for one in last]
    far = max(ratios, key=lambda ratio: abs(np.log(ratio)))
    note = f"ratio of the two at halves of {last[0].moments.t} events, the one farthest from 1; within a factor of 2"
    yield claim(f"{place}: information Q is split-half Q", f"{SPEC}.3", 0.5 <= far <= 2, far, note)
    found = [one.weak.threshold for one in last]
    losses = [curve.crossing("weak", "mean") for curve in curves]
    both = [
        max((a + 1) / (b + 1), (b + 1) / (a + 1))
        for a, b in zip(found, losses, strict=True)
        if a is not None and b is not None
    ]
    note = (
        f"largest ratio of T + 1 between the split-half threshold ({_listed(found)}) and that by loss against the mean "
        f"vector ({_listed(losses)}), own vectors with hardly a prior; within a factor of 2"
    )
    holds = len(both) == len(curves) and max(both) <= 2
    yield claim(
        f"{place}: moments and losses give one threshold", f"{SPEC}.4", holds, max(both, default=0.0), note
    )


def _crossing_claim(place: str, curves: Sequence[ThresholdCurve], kind: str, other: str) -> Claim:
    """The difference of the loss after the most events, over the users of all seeds."""
    last = [curve.losses[-1] for curve in curves]
    one, two = (
        torch.from_numpy(np.concatenate([getattr(point, name) for point in last])) for name in (kind, other)
    )
    test = paired(one, two, 0)
    found = [_crossing(curve, kind, other) for curve in curves]
    note = (
        f"difference of the loss after {last[0].t} events; from {_listed(found)} events on it is at most 0 at every "
        "number of the grid"
    )
    holds = all(at is not None for at in found) and test.below
    name = f"{place}: {KINDS[kind]} better than {KINDS[other]} from some number of events on"
    return claim(name, f"{SPEC}.4", holds, test.difference, note, (test.low, test.high))


def _crossing(curve: ThresholdCurve, kind: str, other: str) -> int | None:
    if any(getattr(one, other) is None for one in curve.losses):
        return None
    return curve.crossing(kind, other)


def _at(curve: ThresholdCurve, t: int) -> Losses:
    return next(one for one in curve.losses if one.t == t)


def _shared(every: Sequence[Sequence[int]]) -> list[int]:
    return [t for t in every[0] if all(t in own for own in every)]


def _listed(values: Sequence[int | None]) -> str:
    return ", ".join("none" if one is None else str(one) for one in values)
