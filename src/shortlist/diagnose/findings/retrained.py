"""Findings of retraining: what each change of the recipe gained, the largest gain first."""

from collections.abc import Sequence

from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.summary import best_knob, setting
from shortlist.diagnose.findings.text import counted, points, rises
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.metrics.significance import holm

LEAST = 0.1  # seconds
LEVEL = 0.05  # of all changes together, after Holm's correction


def retrained_findings(diagnosis: Diagnosis) -> list[Finding]:
    """For every stage the change with the largest gain, if it is significant after Holm's correction."""
    gained = significant(diagnosis.knobs)
    best = {knob.stage: knob for knob in sorted(gained, key=_gain)}  # the largest gain of a stage comes last
    return [_finding(knob, diagnosis) for knob in sorted(best.values(), key=_gain, reverse=True)]


def significant(knobs: Sequence[KnobResult]) -> list[KnobResult]:
    """The trained changes with an interval above 0 and an adjusted p-value of at most 5 %."""
    measured = trained(knobs)
    adjusted = holm([1.0 if knob.p_value is None else knob.p_value for knob in measured])
    pairs = zip(measured, adjusted, strict=True)
    return [knob for knob, p in pairs if knob.gain is not None and rises(knob.gain) and p <= LEVEL]


def trained(knobs: Sequence[KnobResult]) -> list[KnobResult]:
    """The changes that were trained and measured."""
    return [knob for knob in knobs if knob.needs_training and knob.gain is not None]


def retrained_sentences(knobs: Sequence[KnobResult]) -> list[str]:
    """What was trained for one stage."""
    measured, waiting = trained(knobs), [knob for knob in knobs if knob.needs_training and knob.gain is None]
    best = best_knob(measured)
    left = f" Not trained: {'; '.join(map(setting, waiting))}." if waiting else ""
    if best is None or best.gain is None:
        return [f"No change of it was trained.{left}"]
    of = f" (the best of {len(measured)} changes)" if measured[1:] else ""
    return [f"Trained: {setting(best)} gave {points(best.gain)}{of}.{left}"]


def _finding(knob: KnobResult, diagnosis: Diagnosis) -> Finding:
    assert knob.gain is not None
    text, count = setting(knob), len(trained(diagnosis.knobs))
    return Finding(
        knob.stage,
        f"{text[:1].upper()}{text[1:]} gains {points(knob.gain)} of recall.",
        f"Measured: trained with this change and compared on the same {diagnosis.users:,} users; significant after "
        f"Holm's correction for {counted(count, 'change')}. The best of several is overestimated.",
        f"{_how(knob)} Its training took {knob.seconds or 0.0:,.0f} s, without the stages it shares.",
        knob.gain,
        0.0,
        text,
        advised=True,
    )


def _how(knob: KnobResult) -> str:
    return f"Train with: {knob.options}." if knob.options else "Train again with: shortlist train RECIPE."


def gain_per_second(knob: KnobResult) -> float:
    """The gain of a change over the seconds of its training."""
    return _gain(knob) / max(knob.seconds or 0.0, LEAST)


def _gain(knob: KnobResult) -> float:
    return 0.0 if knob.gain is None else knob.gain.mean or 0.0
