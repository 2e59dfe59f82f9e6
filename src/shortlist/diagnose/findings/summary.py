"""The summary of a diagnosis in a few sentences, and its plain text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shortlist.diagnose.findings.text import counted, percent, points, rises, with_interval
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.metrics.estimate import Estimate

if TYPE_CHECKING:  # a diagnosis prints itself with this module
    from shortlist.diagnose.diagnosis import Diagnosis, StageReport

KINDS = {
    "catalogue": "items known to the bundle",
    "nominator": "candidate generation",
    "filter": "a filter",
    "hydrator": "adds columns",
    "scorer": "a ranker",
    "selector": "selects the slate",
}
SENTENCES = {
    "nominator": "adding {setting} to {stage!r}",
    "limits": "twice the limit of every nominator of {stage!r}",
    "fit": "fitting {stage!r} again with the same settings",
    "settings": "{setting}",
}


def plain_text(diagnosis: "Diagnosis") -> str:
    """Summary, warnings, one row per stage, and the findings."""
    lines = [
        *summary(diagnosis),
        *(f"warning: {warning}" for warning in diagnosis.warnings),
        *_rows(diagnosis),
    ]
    lines += [f"{number}. {finding.text}" for number, finding in enumerate(diagnosis.findings, start=1)]
    return "\n".join(lines)


def _rows(diagnosis: "Diagnosis") -> list[str]:
    relevant, worst = max(diagnosis.relevant, 1), diagnosis.largest_loss
    width = max([len(stage.name) for stage in diagnosis.stages] + [5]) + 2
    rows = [f"  {'stage':<{width}}{'entered':>9}{'survived':>10}{'lost':>9}{'share':>8}{'avoidable':>11}"]
    for stage in diagnosis.stages:
        mark = "> " if stage is worst else "  "
        counts = f"{stage.entered:>9,}{stage.survived:>10,}{stage.lost:>9,}"
        shares = f"{stage.lost / relevant:>8.1%}{diagnosis.decided[stage.name] / relevant:>11.1%}"
        rows.append(f"{mark}{stage.name:<{width}}{counts}{shares}")
    return rows


def summary(diagnosis: "Diagnosis") -> list[str]:
    """The result in three sentences."""
    if not diagnosis.relevant:
        return ["No user of the sample has a relevant item, so nothing can be measured."]
    sentences = [_recall(diagnosis)]
    worst = diagnosis.largest_loss
    if worst is None:
        return [*sentences, "No stage has avoidable losses."]
    decided = diagnosis.decided[worst.name]
    sentences.append(
        f"Most avoidable losses are decided by {worst.name!r} ({kind_of(worst)}): "
        f"{counted(decided, 'relevant item')}, {percent(decided / diagnosis.relevant)}. "
        f"{_potential(diagnosis)}"
    )
    coverage = diagnosis.coverage
    alarm = [f"Alarm: {percent(coverage.first_share)} of all slates begin with the same item."]
    return [*sentences, _best_knob(diagnosis), *(alarm if coverage.collapse else [])]


def _recall(diagnosis: "Diagnosis") -> str:
    """The headline on all users, or for a bare pipeline the recall of the sample."""
    if diagnosis.headline is not None:
        return diagnosis.headline.sentence
    return (
        f"Recall@{diagnosis.k} is {with_interval(diagnosis.recall)}, the mean over {_measured_users(diagnosis)}: the "
        f"funnel returned {diagnosis.returned:,} of {counted(diagnosis.relevant, 'relevant item')}.{_most(diagnosis)}"
    )


def sample_note(diagnosis: "Diagnosis") -> str:
    """Which users the account of losses is about, and the most that their slates can hold."""
    sample = diagnosis.sample
    of = "all" if sample.stages == sample.held_out else f"a random sample of {sample.stages:,} of the"
    return (
        f"Losses, gains and findings are measured on {of} {sample.held_out:,} {sample.part}: slates of {diagnosis.k} "
        f"returned {diagnosis.returned:,} of {counted(diagnosis.relevant, 'relevant item')}.{_most(diagnosis)}"
    )


def potential(stage: "StageReport") -> Estimate:
    """The largest gain that was measured for a perfect stage: one that keeps all relevant items, or orders by them."""
    measured = [one for one in (stage.what_if.oracle, stage.what_if.order) if one and one.mean is not None]
    return max(measured, key=lambda one: one.mean or 0.0, default=Estimate(0.0))


def best_knob(knobs: Sequence[KnobResult]) -> KnobResult | None:
    """The measured setting with the largest gain, significant ones first; None where nothing was measured."""
    measured = [(knob.gain, knob) for knob in knobs if knob.gain is not None and knob.gain.mean is not None]
    best = max(measured, key=lambda pair: (rises(pair[0]), pair[0].mean or 0.0), default=None)
    return None if best is None else best[1]


def setting(knob: KnobResult) -> str:
    """A knob with its setting, in a sentence."""
    if knob.knob in ("rule", "removed"):
        return f"leaving out {knob.stage!r}"
    if knob.knob in SENTENCES:
        return SENTENCES[knob.knob].format(stage=knob.stage, setting=knob.setting)
    if knob.knob == "candidates":
        return f"the whole catalogue as candidates of {knob.stage!r}"
    if knob.setting == "none":
        return f"no {knob.knob} at {knob.stage!r}"
    return f"{knob.knob} = {knob.setting} at {knob.stage!r}"


def _measured_users(diagnosis: "Diagnosis") -> str:
    return f"{diagnosis.users:,} {diagnosis.sample.part}"


def _most(diagnosis: "Diagnosis") -> str:
    """The most that slates can hold, where users have more relevant items than places."""
    if diagnosis.max_recall >= 1:
        return ""
    return (
        f" With slates of {diagnosis.k} recall is at most {percent(diagnosis.max_recall)}, because users have more "
        "relevant items than that."
    )


def _potential(diagnosis: "Diagnosis") -> str:
    """The stage with the largest measured potential."""
    stages = [stage for stage in diagnosis.stages if (potential(stage).mean or 0.0) > 0]
    if not stages:
        return "No single perfect stage would raise recall."
    stage = max(stages, key=lambda one: potential(one).mean or 0.0)
    perfect = "a perfect order" if potential(stage) is stage.what_if.order else "a perfect stage"
    return (
        f"The most could be gained at {stage.name!r}: {perfect} there would bring {points(potential(stage))} of "
        "recall, with the other stages as trained."
    )


def _best_knob(diagnosis: "Diagnosis") -> str:
    retrained = any(knob.needs_training and knob.gain is not None for knob in diagnosis.knobs)
    unknown = (
        "" if retrained else " What training another way would gain is not known; --retrain measures it."
    )
    best = best_knob(diagnosis.knobs)
    if best is None or best.gain is None:
        return f"No setting was measured on these users.{unknown}"
    if rises(best.gain):
        return (
            f"Of {n_measured(diagnosis.knobs)} settings measured, {setting(best)} gained most: {points(best.gain)} of "
            f"recall. The best of several is overestimated: measure it on other users.{unknown}"
        )
    return f"None of the measured settings has a significant gain.{unknown}"


def n_measured(knobs: Sequence[KnobResult]) -> int:
    """The number of settings that were measured."""
    return sum(knob.gain is not None for knob in knobs)


def kind_of(stage: "StageReport") -> str:
    """The kind of a stage in words."""
    return KINDS.get(stage.kind, stage.kind)
