"""The diagnosis of an invented funnel: every number is chosen, every sum is right."""

from dataclasses import replace
from typing import Any

from shortlist.diagnose.calibration import Bin, Calibration, Reliability
from shortlist.diagnose.coverage import Coverage
from shortlist.diagnose.diagnosis import Balance, Diagnosis, NominatorReport, SampledUsers, StageReport
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.nominators.report import (
    NominationReport,
    NominatorCost,
    NominatorShare,
    NominatorValue,
    Reveal,
    SegmentNomination,
    SplitAdvice,
)
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.segments import Segment
from shortlist.diagnose.shift import Shift
from shortlist.diagnose.what_if import WhatIf
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import About

STAGES = (  # name, kind, survived of 1,000 relevant items, removed, unavoidable, candidates
    ("pool", "nominator", 700, 0, 0, 240.0),
    ("seen", "filter", 690, 10, 0, 230.0),
    ("rank", "scorer", 400, 0, 0, 60.0),
    ("diverse", "selector", 150, 0, 100, 10.0),
)
NO_INTERVAL = Estimate(0.1)
NO_NUMBER = Estimate(None)


def between(mean: float, half_width: float = 0.01) -> Estimate:
    return Estimate(mean, mean - half_width, mean + half_width)


def knob(
    stage: str,
    name: str,
    setting: str,
    gain: float | None,
    half_width: float = 0.01,
    candidates: float = 300.0,
) -> KnobResult:
    measured = None if gain is None else between(gain, half_width)
    return KnobResult(stage, name, setting, measured, candidates, needs_training=gain is None)


def stages() -> tuple[StageReport, ...]:
    reports, entered = [], 1000
    for name, kind, survived, removed, unavoidable, candidates in STAGES:
        lost = entered - survived
        what_if = WhatIf(
            lost / 1000,
            lost / 1000 * 150 / survived,
            between(lost / 4000),
            between(0.12) if kind == "scorer" else None,
        )
        reports.append(
            StageReport(
                name,
                kind,
                entered,
                survived,
                lost,
                removed,
                lost - unavoidable,
                unavoidable,
                between(lost / 1000),
                lost / entered,
                candidates,
                0,
                "rank" if kind in ("scorer", "selector") else None,
                what_if,
            )
        )
        entered = survived
    return tuple(reports)


VERDICT = Verdict(
    "undecided",
    "rank",
    400,
    0.2,
    0.198,
    between(0.03),
    between(0.028),
    between(0.002),
    0.9,
    0.4,
    0.7,
    0.1,
)
COVERAGE = Coverage(400, 900, 500, 5 / 9, 0.6, 0.8, 3, 0.1, False, 90, 0.1)
NOMINATORS = {
    "popular": NominatorReport(300, 10, between(-0.001, 0.003)),
    "covisit": NominatorReport(600, 350, between(-0.06)),
}
COST = NominatorCost(4.0, 3.0, 0.01)


def value(solo: float, shapley: float, alone: float, refilled: float, limit: int = 40) -> NominatorValue:
    """A nominator with these parts of the recall of the pool."""
    found = NominatorShare(between(solo), between(shapley), between(alone, 0.002), between(refilled, 0.002))
    reveal = Reveal(between(0.6), between(0.4), between(0.45), between(0.1), between(0.3), 1.2)
    return NominatorValue(limit, 4 * limit, float(limit), found, reveal, None, COST)


def split(gain: float, returned: float, **limits: int) -> SplitAdvice:
    """A split with these gains; by default slots move from popular to covisit."""
    learned = {"popular": 5, "covisit": 220} | limits
    now, then = {"popular": 40, "covisit": 200}, (230.0, 231.0)
    return SplitAdvice(
        now, learned, between(gain), between(gain), between(returned), then, 200, 200, None, (8.0, 7.5)
    )


NOMINATION = NominationReport(
    requests=400,
    users=400,
    relevant=1000,
    recall=between(0.7),
    raw=240.0,
    distinct=230.0,
    nominators={"popular": value(0.1, 0.05, 0.003, 0.0), "covisit": value(0.69, 0.65, 0.6, 0.5, 200)},
    overlap={"popular": {"popular": 1.0, "covisit": 0.25}, "covisit": {"popular": 0.05, "covisit": 1.0}},
    segments=(
        SegmentNomination(
            "new: 20 events or fewer",
            150,
            300,
            between(0.6),
            {
                name: NominatorShare(between(0.5), between(0.4), between(0.3))
                for name in ("popular", "covisit")
            },
            {"popular": 20, "covisit": 210},
            between(0.02),
        ),
    ),
    split=split(0.02, 0.015),
    same_slots=split(0.05, -0.002, covisit=235),
)
SHIFT = Shift(
    requests=400,
    requests_training=900,
    candidates=60.0,
    recall_training=0.65,
    recall_serving=0.7,
    tv=0.3,
    tv_doubled=0.6,
    tv_training=0.35,
    popularity_js=0.04,
    score_ks=0.1,
    auc=0.7,
    balanced_accuracy=0.65,
    tv_lower_bound=0.3,
    items_not_in_training=40,
    relevant_candidates_not_in_training=0.01,
    relevant_not_in_training=0.02,
    level="noticeable",
    few=False,
    histogram=(),
)
BINS = tuple(Bin(0.05 * place, 0.03 * place, 20) for place in range(10))
CALIBRATION = Calibration(
    200, 200, False, Reliability(0.11, 0.04, 3.0, BINS), Reliability(0.03, 0.04, 2.9, BINS), 1.6
)


def diagnosis(**changes: Any) -> Diagnosis:
    """The measured parts, without findings; `changes` replace whole fields."""
    example = Diagnosis(
        pipeline="popular % 40 + covisit % 200 >> seen >> rank % 60 >> diverse % 10",
        users=400,
        k=10,
        seed=0,
        relevant=1000,
        returned=150,
        recall=between(0.15),
        max_recall=1.0,
        precision_at_1=between(0.2),
        stages=stages(),
        balance=Balance(1000, 850, 150, True, 0.0),
        verdict=VERDICT,
        nominators=NOMINATORS,
        knobs=(
            knob("rank", "cut", "120", 0.021, candidates=120.0),
            knob("rank", "cut", "30", -0.03, candidates=30.0),
            knob("covisit", "limit", "400", 0.002),
        ),
        filters=(knob("seen", "rule", "left out", -0.04, candidates=240.0),),
        shift={"rank": NotMeasured("the bundle stores no training candidates of 'rank'")},
        calibration={},
        segments=(),
        coverage=COVERAGE,
        sample=SampledUsers("valid", 500, 400, 300, 400, 0),
        warnings=(),
    )
    return replace(example, **changes)


def full_diagnosis(**changes: Any) -> Diagnosis:
    """A diagnosis of a bundle, with every part measured."""
    measured = diagnosis(
        calibration={"rank": CALIBRATION},
        shift={"rank": SHIFT},
        nomination=NOMINATION,
        segments=(
            segment("users", "new", 100, 0.1),
            segment("items", "tail", 20, 0.02, few=True),
            segment("items", "head", 390, 0.2),
        ),
        about=About(name="fir", data="world", version="abc", fingerprint="f00"),
        seconds=1.25,
    )
    return replace(measured, **changes)


def segment(kind: str, name: str, users: int, recall: float, few: bool = False) -> Segment:
    estimate = Estimate(recall) if few else between(recall, 0.02)
    return Segment(kind, name, users, 3 * users, estimate, (0.3, 0.0, 0.4, 0.3 - recall), few)


def with_stage(example: Diagnosis, number: int, **changes: Any) -> Diagnosis:
    """The same diagnosis with one stage changed."""
    changed = list(example.stages)
    changed[number] = replace(changed[number], **changes)
    return replace(example, stages=tuple(changed))
