"""Findings about several nominators: the one that is needed least, and a better split of their slots."""

from collections.abc import Iterator

from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.text import falls, listed, points, rises
from shortlist.diagnose.nominators.report import NominationReport, NominatorValue, SplitAdvice
from shortlist.diagnose.nominators.text import brings, gains, limits, milliseconds, refilled


def nominator_findings(diagnosis: Diagnosis) -> Iterator[Finding]:
    """What the least needed nominator costs and brings, and a split that gains; only where intervals show it."""
    found = diagnosis.nomination
    if found is None or len(found.nominators) < 2:
        return
    yield from _least_needed(found, diagnosis)
    if isinstance(found.split, SplitAdvice) and found.split.changed and rises(found.split.gain):
        yield _better_split(found.split, diagnosis)


def _least_needed(found: NominationReport, diagnosis: Diagnosis) -> Iterator[Finding]:
    known = {name: one for name, one in found.nominators.items() if rises(one.found.leave_one_out)}
    if not known:
        return
    name = min(known, key=lambda one: _lost(known[one]))
    yield Finding(
        name,
        f"{brings(name, known[name])}.",
        f"Of {len(found.nominators)} nominators it is needed least: {refilled(known[name])}.",
        _keep_or_not(name, known[name], diagnosis),
    )


def _lost(value: NominatorValue) -> float:
    """What the pool loses without it, when the others fill its places."""
    lost = value.found.leave_one_out if value.found.refilled is None else value.found.refilled
    return lost.mean or 0.0


def _keep_or_not(name: str, value: NominatorValue, diagnosis: Diagnosis) -> str:
    users = diagnosis.dependents.get(name, ())
    if users:
        return f"Keep it: it is used by {listed([*users])}."
    if value.found.refilled is not None and rises(value.found.refilled):
        return "Keep it: the others do not make up for it."
    saved = "time" if value.cost is None else milliseconds(value.cost.ms)
    report = diagnosis.nominators.get(name)
    if report is not None and falls(report.without):
        return (
            f"Slates without it, as trained and not filled up, lose: {points(report.without)}. Train again without it "
            f"and with higher limits of the others before you decide; it would save {saved} per request."
        )
    slates = (
        ""
        if report is None
        else f" Slates without it, as trained and not filled up: {points(report.without)}."
    )
    return f"Leaving it out and raising the limits of the others saves {saved} per request.{slates}"


def _better_split(split: SplitAdvice, diagnosis: Diagnosis) -> Finding:
    pool = next((one.name for one in diagnosis.stages if one.kind == "nominator"), "pool")
    within = "" if split.budget_ms is None else f" within {split.budget_ms:g} ms"
    better = rises(split.returned)
    return Finding(
        pool,
        f"Another split over the nominators{within} gains {gains(split)}.",
        f"Limits: {limits(split)}."
        + ("" if better else " Later stages, as trained, do not return more of what the pool gains."),
        "Set these limits in the pipeline, and train the ranker again with them."
        if better
        else "Train the ranker again with these limits before you use them.",
        split.returned,
        setting=limits(split),
        advised=better,
    )
