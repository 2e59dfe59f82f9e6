"""The findings of a diagnosis: what retraining gains, then the losses, each with the stage that decides them.

Losses and the gains of knobs that need no training are exactly known for the users measured. What a stage would gain if
it were trained in another way is known only after training it. Findings say so, and advise only what was measured to
gain.
"""

from collections.abc import Sequence
from dataclasses import replace

from shortlist.diagnose.diagnosis import Diagnosis, Finding, StageReport
from shortlist.diagnose.findings.notes import SMALL, notes
from shortlist.diagnose.findings.retrained import retrained_findings, retrained_sentences
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

UNKNOWN = {
    "catalogue": "No stage can return an item outside the catalogue; train on data with these items.",
    "nominator": "whether other nominators, or the same ones trained longer, would gain",
    "scorer": "whether longer training, another type or a wider cut with later stages trained for it would gain",
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
    """Gains of retraining, then losses by the stage that decides them, then other findings."""
    least, decided = SMALL * max(diagnosis.relevant, 1), diagnosis.decided
    stages = sorted(diagnosis.stages, key=lambda stage: -decided[stage.name])
    losses = [_loss(stage, diagnosis) for stage in stages if decided[stage.name] >= least]
    small = [stage for stage in stages if 0 < decided[stage.name] < least]
    rest = [_small(small, diagnosis)] if small else []
    return (*retrained_findings(diagnosis), *losses, *rest, *notes(diagnosis))


def knobs_of(stage: StageReport, diagnosis: Diagnosis) -> list[KnobResult]:
    """The knobs of a stage; the pool owns those of its nominators."""
    others = {one.name for one in diagnosis.stages} - {stage.name}
    pool = stage.kind == "nominator"
    every = (*diagnosis.knobs, *diagnosis.filters)
    return [knob for knob in every if knob.stage == stage.name or (pool and knob.stage not in others)]


def _loss(stage: StageReport, diagnosis: Diagnosis) -> Finding:
    knobs = knobs_of(stage, diagnosis)
    best = best_knob(
        [knob for knob in knobs if not knob.needs_training]
    )  # retraining has findings of its own
    return Finding(
        stage.name,
        _what(stage, diagnosis),
        " ".join(_why(stage, diagnosis)),
        " ".join(_advice(stage, knobs, diagnosis)),
        best.gain if best else None,
        diagnosis.decided[stage.name] / diagnosis.relevant,
        setting(best) if best else "",
        advised=best is not None and _significant(best, diagnosis) and stage.kind != "filter",
    )


def _significant(best: KnobResult, diagnosis: Diagnosis) -> bool:
    """Whether the best setting gains, given how many were measured at all stages."""
    return best.gain is not None and rises(best.gain.best_of(_tried(diagnosis)))


def _tried(diagnosis: Diagnosis) -> int:
    """Settings that were measured without training."""
    every = (*diagnosis.knobs, *diagnosis.filters)
    return n_measured([knob for knob in every if not knob.needs_training])


def _what(stage: StageReport, diagnosis: Diagnosis) -> str:
    relevant = diagnosis.relevant
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
    return f"{text}.{_by_its_order(stage, diagnosis)}"


def _by_its_order(stage: StageReport, diagnosis: Diagnosis) -> str:
    """The losses of later stages that only follow the order of this one."""
    later = [one for one in diagnosis.stages if one.ordered_by == stage.name and one.by_order]
    if not later:
        return ""
    count = sum(one.by_order for one in later)
    names = listed([one.name for one in later])
    return f" Its order also decides {counted(count, 'avoidable loss', 'avoidable losses')} at {names}."


def _why(stage: StageReport, diagnosis: Diagnosis) -> list[str]:
    sentences = [REASONS.get(stage.kind, "")]
    if stage.kind == "filter" and stage.removed < stage.lost:
        sentences = [_rule_and_cut(stage)]
    if stage.kind != "filter" and stage.removed:
        sentences.append(f"A filter inside of it removed {stage.removed:,} of them.")
    if stage.kind == "selector" and stage.ordered_by and stage.ordered_by != stage.name:
        own = stage.avoidable - stage.by_order
        sentences.append(
            f"The best by the scores of {stage.ordered_by!r} would lose {stage.by_order:,} of the avoidable ones as "
            f"well; its own choice loses {own:,}."
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
        much = "Nothing" if gain <= NOISE else "Less than half"
        again = _loses_again(stage, max(later, key=lambda one: one.conditional or 0.0))
        sentences.append(f"{much} of what it loses would be returned: {again}.")
    return sentences


def _loses_again(stage: StageReport, worst: StageReport) -> str:
    """The later stage that loses most, or the one whose order it follows."""
    if 2 * worst.by_order < worst.avoidable or worst.ordered_by is None:
        return f"later stages, {worst.name!r} most of all, would lose it again"
    if worst.ordered_by == stage.name:
        return f"its order puts them below the places of {worst.name!r}"
    return f"the order of {worst.ordered_by!r} would lose it again"


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


def _advice(stage: StageReport, knobs: Sequence[KnobResult], diagnosis: Diagnosis) -> list[str]:
    """The measured knobs, and what is not known."""
    untrained = [knob for knob in knobs if not knob.needs_training]
    best = best_knob(untrained)
    if stage.kind == "filter" and best is not None and best.gain is not None:
        end = ": the filter raises recall" if falls(best.gain) else ""
        return [f"Measured: {setting(best)} gave {points(best.gain)}{end}. The rule may have other reasons."]
    return [_gain(stage, untrained, best, diagnosis), *_not_known(stage, diagnosis)]


def _gain(
    stage: StageReport, knobs: Sequence[KnobResult], best: KnobResult | None, diagnosis: Diagnosis
) -> str:
    """The measured effect of the best knob."""
    if best is None or best.gain is None:
        return "It has no setting that can be changed without training."
    tried = n_measured(knobs)
    of = f" (the best of {tried} settings)" if tried > 1 else ""
    if rises(best.gain):
        chance = (
            ""
            if _significant(best, diagnosis)
            else f" Among the {_tried(diagnosis)} settings measured at all stages this is not significant."
        )
        return f"Measured: {setting(best)} gave {points(best.gain)}{of}{_cost(best, stage)}.{chance}"
    if best.gain.low is None:
        return f"Measured: {setting(best)} gave {points(best.gain)}{of}."
    if falls(best.gain):
        return (
            "With all stages as trained, every measured setting lowers recall; the smallest drop is "
            f"{points(best.gain)} with {setting(best)}."
        )
    return f"Without training no setting gains significantly: {setting(best)} gave {points(best.gain)}{of}."


def _not_known(stage: StageReport, diagnosis: Diagnosis) -> list[str]:
    """What only training can show."""
    text = UNKNOWN.get(stage.kind, "")
    if not text.startswith("whether"):
        return [text] if text else []
    if any(knob.needs_training and knob.gain is not None for knob in diagnosis.knobs):
        return retrained_sentences(knobs_of(stage, diagnosis))
    return [f"Not known without training: {text}; --retrain measures it."]


def _cost(knob: KnobResult, stage: StageReport) -> str:
    before, after = stage.candidates, knob.candidates
    if after is None or not before or after <= before * 1.05:
        return ""
    return f", with {after:,.0f} candidates per request after this stage instead of {before:,.0f}"


def _small(stages: Sequence[StageReport], diagnosis: Diagnosis) -> Finding:
    names = listed([stage.name for stage in stages])
    share = sum(diagnosis.decided[stage.name] for stage in stages) / diagnosis.relevant
    single = len(stages) == 1
    trained = any(stage.kind in ("nominator", "scorer") for stage in stages)
    return Finding(
        stages[0].name,
        f"{names} {'loses' if single else 'together lose'} {share:.2%} of the relevant items avoidably.",
        "That is less than 1 %." if single else "Each loses less than 1 %.",
        "Keeping these items would gain little."
        + (" Not known without training: whether other candidates or scores from here would gain." * trained),
        None,
        share,
    )
