"""The knobs of a diagnosis: settings changed without training, and changes of the recipe that were trained."""

from collections.abc import Sequence

from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.retrained import gain_per_second, significant, trained
from shortlist.diagnose.findings.summary import setting
from shortlist.diagnose.findings.text import falls, points, rises, unbroken
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.metrics.estimate import Estimate
from shortlist.report.page import Html, Section, table


def knobs(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.knobs:
        return None
    measured = [
        (knob.gain, knob) for knob in diagnosis.knobs if knob.gain is not None and not knob.needs_training
    ]
    rows = [
        [
            knob.stage,
            unbroken(f"{knob.knob} = {knob.setting}"),
            unbroken(points(gain)),
            "–" if knob.candidates is None else f"{knob.candidates:,.0f}",
            _significance(gain),
        ]
        for gain, knob in sorted(measured, key=lambda pair: -(pair[0].mean or 0.0))
    ]
    return Section(
        "Knobs",
        [
            "Each setting was changed alone, and the whole funnel was run again for the same users. Unlike an oracle, "
            "these settings can be deployed. The best of many is overestimated: expect a little less than its gain.",
            *([table(["stage", "setting", "gain of recall", "candidates", ""], rows)] if rows else []),
            *_retrained(diagnosis.knobs),
            *_not_measured(diagnosis.knobs),
        ],
    )


def _retrained(knobs: Sequence[KnobResult]) -> list[Html | str]:
    """The changes that were trained, by their gain per second of training."""
    measured = trained(knobs)
    if not measured:
        return []
    gained = significant(knobs)
    rows = [
        [
            knob.stage,
            setting(knob),
            unbroken(points(knob.gain or Estimate(None))),
            f"{knob.seconds or 0.0:,.0f}",
            "better" if knob in gained else "not significant",
            knob.options,
        ]
        for knob in sorted(measured, key=gain_per_second, reverse=True)
    ]
    heads = ["stage", "change", "gain of recall", "seconds", "", "options of train"]
    return [
        "Each change was trained, and compared with the same recipe trained without it on the same users. Sorted by "
        "gain per second of training. Better: significant after Holm's correction for all of them. Stages that a "
        "change does not reach were not fitted again, so a whole training takes longer.",
        table(heads, rows),
    ]


def _significance(gain: Estimate) -> str:
    if gain.low is None:
        return ""
    return "better" if rises(gain) else "worse" if falls(gain) else "not significant"


def _not_measured(knobs: Sequence[KnobResult]) -> list[str]:
    """Settings without a gain, and why."""
    missing = [knob for knob in knobs if knob.gain is None]
    texts = [
        f"{knob.knob} = {knob.setting} at {knob.stage!r} could not be trained: {knob.why}"
        for knob in missing
        if knob.why
    ]
    waiting = [f"{knob.knob} = {knob.setting} at {knob.stage!r}" for knob in missing if not knob.why]
    if waiting:
        listed = "; ".join(waiting)
        texts.append(
            f"Not measured, because it needs training: {listed}. --retrain trains and measures each."
        )
    return texts
