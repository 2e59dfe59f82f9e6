"""The findings of a diagnosis: the largest avoidable loss first, its reason, and the measured gain of a knob."""

from collections.abc import Sequence
from dataclasses import replace

from shortlist.diagnose.diagnosis import Diagnosis, Finding, StageReport
from shortlist.diagnose.findings.notes import SMALL, notes
from shortlist.diagnose.findings.summary import best_knob, kind_of, n_measured, setting
from shortlist.diagnose.findings.text import (
    NOISE,
    counted,
    falls,
    listed,
    percent,
    points,
    rises,
    with_interval,
)
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis

TENTH = 0.001  # a tenth of a point: smaller differences are not reported

KNOBS = {
    "catalogue": "Train again on data with these items; no stage can return an item outside the catalogue.",
    "nominator": "Raise the limit of a nominator (the number after % in the recipe), or add a nominator.",
    "filter": "Change the rule of the filter: what it removes, and how much of the history it uses. The rule may "
    "have other reasons.",
    "hydrator": "It only adds columns; see the stage before it.",
    "scorer": "Raise its cut (the number after % in the recipe), or change what it is trained on.",
    "selector": "Lower its strength of diversity, or return more items.",
}
REASONS = {
    "catalogue": "They are not in the catalogue of the bundle.",
    "nominator": "No nominator nominated them, so no later stage saw them.",
    "filter": "The filter removes by its rule, not by a score; these users still interacted with such items.",
    "hydrator": "It adds columns and should lose nothing.",
    "scorer": "They were candidates, but others were scored higher.",
    "selector": "They were candidates at the end, but others were selected for the slate.",
}


def with_findings(diagnosis: Diagnosis) -> Diagnosis:
    """The same diagnosis with its findings."""
    return replace(diagnosis, findings=findings_of(diagnosis))


def findings_of(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Losses by what could be avoided of them, then other findings."""
    least = SMALL * max(diagnosis.relevant, 1)
    stages = sorted(diagnosis.stages, key=lambda stage: -stage.avoidable)
    losses = [_loss(stage, diagnosis) for stage in stages if stage.avoidable >= least]
    small = [stage for stage in stages if 0 < stage.avoidable < least]
    return (*losses, *([_small(small, diagnosis.relevant)] if small else []), *notes(diagnosis))


def knobs_of(stage: StageReport, diagnosis: Diagnosis) -> list[KnobResult]:
    """The knobs of a stage; the pool owns those of its nominators."""
    others = {one.name for one in diagnosis.stages} - {stage.name}
    pool = stage.kind == "nominator"
    every = (*diagnosis.knobs, *diagnosis.filters)
    return [knob for knob in every if knob.stage == stage.name or (pool and knob.stage not in others)]


def _loss(stage: StageReport, diagnosis: Diagnosis) -> Finding:
    knobs = knobs_of(stage, diagnosis)
    best = best_knob(knobs)
    return Finding(
        stage.name,
        _what(stage, diagnosis.relevant),
        " ".join(_why(stage, diagnosis)),
        " ".join(_advice(stage, knobs, best)),
        best.gain if best else None,
        stage.avoidable / diagnosis.relevant,
        setting(best) if best else "",
    )


def _what(stage: StageReport, relevant: int) -> str:
    text = (
        f"{stage.name!r} ({kind_of(stage)}) loses {stage.lost:,} of {counted(relevant, 'relevant item')} "
        f"({with_interval(stage.share)})"
    )
    if stage.conditional is not None and stage.entered < relevant:
        text += f", {percent(stage.conditional)} of the {stage.entered:,} that reach it"
    if stage.unavoidable:
        text += (
            f"; {stage.unavoidable:,} of them are unavoidable, because their users have more relevant items than the "
            "slate has places"
        )
    return text + "."


def _why(stage: StageReport, diagnosis: Diagnosis) -> list[str]:
    sentences = [REASONS.get(stage.kind, "")]
    if stage.kind == "filter" and stage.removed < stage.lost:
        sentences = [_rule_and_cut(stage)]
    if stage.kind != "filter" and stage.removed:
        sentences.append(f"A filter inside of it removed {stage.removed:,} of them.")
    if stage.kind == "selector" and stage.ordered_by and stage.ordered_by != stage.name:
        sentences.append(
            f"It selects by the scores of {stage.ordered_by!r}, so a better order there matters most."
        )
    sentences += _what_if(stage, diagnosis)
    if stage.kind == "nominator":
        sentences += [_tree_losses(name, tree) for name, tree in diagnosis.trees.items()]
    return [text for text in sentences if text]


def _rule_and_cut(stage: StageReport) -> str:
    """A filter with a cut behind it loses by its rule and by the cut."""
    cut = stage.lost - stage.removed
    rule = f"Its rule removed {stage.removed:,} of them" if stage.removed else "Its rule kept them"
    rest = (
        f"; {cut:,} passed, but ranked below the cut" if stage.removed else ", but they ranked below the cut"
    )
    return f"{rule}{rest} after it, in the order of the stages before it."


def _what_if(stage: StageReport, diagnosis: Diagnosis) -> list[str]:
    """The gain of a perfect stage, and the stage that would lose it again."""
    then = stage.what_if
    if then.oracle is None or then.oracle.mean is None:
        return []
    gain, order = then.oracle.mean, then.order
    apart = order is not None and order.mean is not None and order.mean > gain + TENTH
    more = f" ({points(order)} if it also scored them highest)" if apart and order is not None else ""
    sentences = [
        f"With the other stages as trained, a perfect {stage.name!r} would bring {points(then.oracle)}{more} of recall."
    ]
    names = [one.name for one in diagnosis.stages]
    later = diagnosis.stages[names.index(stage.name) + 1 :]
    if gain < (then.ceiling or 0.0) / 2 and later:
        worst = max(later, key=lambda one: one.conditional or 0.0)
        much = "Nothing" if gain <= NOISE else "Less than half"
        sentences.append(
            f"{much} of what it loses would be returned: later stages, {worst.name!r} most of all, would lose it again."
        )
    return sentences


def _tree_losses(name: str, tree: TreeDiagnosis) -> str:
    """Whether the search or the scorer of a tree loses more."""
    losses = tree.losses
    relevant = max(losses.relevant, 1)
    text = (
        f"The tree {name!r} missed {percent(1 - losses.returned / relevant)} of the relevant items of "
        f"{counted(tree.users, 'user')}: {percent(losses.scorer / relevant)} because its scorer does not rank them "
        f"high enough, {percent(losses.beam / relevant)} because the beam search did not reach them."
    )
    return text + (" A larger beam will not help." if losses.beam < SMALL * relevant else "")


def _advice(stage: StageReport, knobs: Sequence[KnobResult], best: KnobResult | None) -> list[str]:
    advice = [KNOBS.get(stage.kind, "")]
    if stage.kind == "filter" and best is not None and best.gain is not None:
        end = ": the filter raises recall" if falls(best.gain) else ""
        if 2 * stage.removed < stage.lost:
            advice = [
                "Improve the order before it (a ranker with a cut), or raise the cut; its rule loses little."
            ]
        return [*advice, f"Measured: {setting(best)} gave {points(best.gain)}{end}."]
    return [*advice, _gain(stage, knobs, best), *_needs_training(knobs)]


def _gain(stage: StageReport, knobs: Sequence[KnobResult], best: KnobResult | None) -> str:
    """The measured effect of the best knob."""
    if best is None or best.gain is None:
        return "No setting of this stage was measured."
    tried = n_measured(knobs)
    of = f" (the best of {tried} settings)" if tried > 1 else ""
    if rises(best.gain):
        return f"Measured: {setting(best)} gave {points(best.gain)}{of}{_cost(best, stage)}."
    if best.gain.low is None:
        return f"Measured: {setting(best)} gave {points(best.gain)}{of}."
    if falls(best.gain):
        return f"Every measured setting lowers recall; the smallest drop is {points(best.gain)} with {setting(best)}."
    return f"No significant gain: {setting(best)} gave {points(best.gain)}{of}."


def _needs_training(knobs: Sequence[KnobResult]) -> list[str]:
    waiting = [knob for knob in knobs if knob.needs_training and knob.gain is None and not knob.why]
    if not waiting:
        return []
    settings = ", ".join(f"{knob.knob} = {knob.setting}" for knob in waiting)
    return [f"Not measured: {settings}; they need training, add --retrain."]


def _cost(knob: KnobResult, stage: StageReport) -> str:
    before, after = stage.candidates, knob.candidates
    if after is None or not before or after <= before * 1.05:
        return ""
    return f", with {after:,.0f} candidates per request after this stage instead of {before:,.0f}"


def _small(stages: Sequence[StageReport], relevant: int) -> Finding:
    names = listed([stage.name for stage in stages])
    share = sum(stage.avoidable for stage in stages) / relevant
    single = len(stages) == 1
    return Finding(
        stages[0].name,
        f"{names} {'loses' if single else 'together lose'} {share:.2%} of the relevant items avoidably.",
        "That is less than 1 %." if single else "Each loses less than 1 %.",
        "No change needed.",
        None,
        share,
    )
