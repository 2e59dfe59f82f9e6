"""Findings beside the losses: the ranker alone, training and serving, calibration, nominators."""

from collections.abc import Iterator

from shortlist.diagnose.calibration import Calibration, Reliability
from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.nominators import nominator_findings
from shortlist.diagnose.findings.text import counted, falls, listed, percent, points, rises
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.shift import Shift
from shortlist.metrics.estimate import MIN_USERS, Estimate

SMALL = 0.01  # a share of the relevant items that needs no change
ENOUGH = 0.1  # of the relevant items among the candidates: with fewer, training on retrieved targets has too little
MISCALIBRATED = 0.05  # expected calibration error
REDUNDANT = 0.05  # of recall: a nominator is redundant if the interval of its removal lies above this loss
SIZES = ("limit", "cut", "beam", "k", "ef", "nprobe")  # knobs that only pass on more candidates
HALVED = 0.5  # share of the calibration error that a temperature must leave at most to be advised


def notes(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """By fixed rules, in a fixed order: what costs recall, what misleads, what could be removed."""
    rules = (
        _same,
        _hurts,
        _noise,
        _search,
        _shift,
        _few_targets,
        _calibration,
        _underfilled,
        _idle,
        nominator_findings,
    )
    return tuple(finding for rule in rules for finding in rule(diagnosis))


def _same(diagnosis: Diagnosis) -> Iterator[Finding]:
    if diagnosis.coverage.collapse:
        yield Finding(
            diagnosis.stages[-1].name,
            f"Alarm: {percent(diagnosis.coverage.first_share)} of all slates begin with the same item.",
            "More than a fifth of the users have the same first item.",
            "Check that the last scorer uses histories; train it longer, or with a lower learning rate."
            if any(stage.kind == "scorer" for stage in diagnosis.stages)
            else "No stage is personalised: add a nominator that uses histories (co-visit), or a ranker.",
        )


def _hurts(diagnosis: Diagnosis) -> Iterator[Finding]:
    verdict = diagnosis.verdict
    if isinstance(verdict, Verdict) and verdict.answer == "hurts":
        yield Finding(
            verdict.stage,
            f"{verdict.stage!r} alone, over the whole catalogue, would do better: its first item is relevant for "
            f"{percent(verdict.accuracy_full)} of the users, after the earlier stages for "
            f"{percent(verdict.accuracy)} ({points(verdict.difference)}).",
            "The stages before it drop items that it would rank first.",
            "Widen the stages before it: higher limits of the nominators, larger cuts.",
        )


def _noise(diagnosis: Diagnosis) -> Iterator[Finding]:
    """More candidates lower recall: the ranker was not trained to reject them."""
    verdict = diagnosis.verdict if isinstance(diagnosis.verdict, Verdict) else None
    worse = [(gain, knob) for gain, knob in _widened(diagnosis) if falls(gain)]
    if worse:
        gain, knob = min(worse, key=lambda pair: pair[0].mean or 0.0)
        what = f"More candidates lower recall: {knob.knob} = {knob.setting} at {knob.stage!r} gave {points(gain)}."
    elif verdict is not None and verdict.answer == "helps":
        what = (
            f"{verdict.stage!r} needs the stages before it: over the whole catalogue its first item is relevant for "
            f"{percent(verdict.accuracy_full)} of the users instead of {percent(verdict.accuracy)}."
        )
    else:
        return
    stage = None if verdict is None else verdict.stage
    yield Finding(
        stage or diagnosis.stages[-1].name,
        what,
        "Among more candidates the ranker, as trained, picks irrelevant ones more often.",
        _negatives(diagnosis, stage),
    )


def _negatives(diagnosis: Diagnosis, stage: str | None) -> str:
    """What is not known: a ranker that is trained for other candidates."""
    history = diagnosis.about.training.get(stage or "")
    if history is not None and history.negatives in ("candidates", "all-candidates", "both"):
        return (
            "It is trained with candidates as negatives already. Not known without training: whether other nominators, "
            "or a ranker trained for more candidates, would gain; --retrain measures it."
        )
    return (
        'Not known without training: whether candidates as negatives (negatives = "candidates" or "both") would gain; '
        "--retrain measures it."
    )


def _widened(diagnosis: Diagnosis) -> list[tuple[Estimate, KnobResult]]:
    """Measured sizes that pass on more candidates than the stage does now."""
    now = {stage.name: stage.candidates for stage in diagnosis.stages}
    pool = next((stage.candidates for stage in diagnosis.stages if stage.kind == "nominator"), None)
    wider = []
    for knob in diagnosis.knobs:
        before = now.get(knob.stage, pool)
        if before is None or knob.gain is None or knob.candidates is None or knob.knob not in SIZES:
            continue
        if knob.candidates > before:
            wider.append((knob.gain, knob))
    return wider


def _search(diagnosis: Diagnosis) -> Iterator[Finding]:
    for name, tree in diagnosis.trees.items():
        losses = tree.losses
        if losses.relevant and losses.beam < SMALL * losses.relevant:
            yield Finding(
                name,
                f"The beam search of the tree {name!r} loses {percent(losses.beam / losses.relevant)} of the "
                "relevant items.",
                "Scoring every leaf would find hardly more than the beam does.",
                "A larger beam will not help; better training of the tree's scorer may.",
            )


def _shift(diagnosis: Diagnosis) -> Iterator[Finding]:
    for name, shift in diagnosis.shift.items():
        if isinstance(shift, Shift) and shift.level in ("large", "noticeable") and not shift.few:
            yield Finding(
                name,
                f"{name!r} was trained on other candidates than it receives at serving ({shift.level} shift): a "
                f"classifier separates them with AUC {shift.auc:.2f} (0.50: not at all), and "
                f"{percent(shift.recall_training)} of the targets were among them in training, "
                f"{percent(shift.recall_serving)} of the relevant items are at serving.",
                "A ranker is reliable only on candidates like those it was trained on.",
                "Train again with the nominators and cuts that serve now.",
            )


def _few_targets(diagnosis: Diagnosis) -> Iterator[Finding]:
    for name, shift in diagnosis.shift.items():
        recall = shift.recall_training if isinstance(shift, Shift) else None
        if recall is not None and recall < ENOUGH:
            yield Finding(
                name,
                f"Only {percent(recall)} of the targets were among the training candidates of {name!r}.",
                f"Below {ENOUGH:.0%} too few examples are left for training on retrieved targets only.",
                'Keep mode = "original" or "mixed" for it, and improve the nominators first; mode = "harmonised" is '
                "not advised.",
            )


def _calibration(diagnosis: Diagnosis) -> Iterator[Finding]:
    measured = [(name, one) for name, one in diagnosis.calibration.items() if isinstance(one, Calibration)]
    for name, one in measured[-1:]:  # only the scores of the last scorer leave the funnel
        before = one.before
        if before.ece < max(MISCALIBRATED, before.noise) or one.users < MIN_USERS:
            continue
        confidence, accuracy = _means(before)
        yield Finding(
            name,
            f"{name!r} is {'over' if confidence > accuracy else 'under'}confident: its mean confidence in its first "
            f"choices is {percent(confidence)}, and {percent(accuracy)} of them are relevant.",
            "The order of the items, and so every loss above, does not depend on it."
            + (
                ""
                if one.probabilities
                else " Its scores are no probabilities: a softmax over the candidates divides one between all "
                "relevant items."
            ),
            _recalibrate(one),
        )


def _means(reliability: Reliability) -> tuple[float, float]:
    """Mean confidence and mean accuracy over all bins."""
    count = max(sum(part.count for part in reliability.bins), 1)
    confidence = sum(part.confidence * part.count for part in reliability.bins) / count
    return confidence, sum(part.accuracy * part.count for part in reliability.bins) / count


def _recalibrate(one: Calibration) -> str:
    if one.after is not None and one.temperature is not None and one.after.ece < HALVED * one.before.ece:
        return (
            f"Divide its scores by {one.temperature:.2f} where they are used as probabilities: the calibration error "
            f"is then {percent(one.after.ece)} instead of {percent(one.before.ece)}."
        )
    return (
        'Calibrate it (calibrate = "platt" or "isotonic") where its scores are used as probabilities; a temperature '
        "alone does not correct it. Where only the order counts, leave it."
    )


def _underfilled(diagnosis: Diagnosis) -> Iterator[Finding]:
    for stage in diagnosis.stages:
        if stage.underfilled:
            yield Finding(
                stage.name,
                f"{stage.name!r} has fewer candidates than places in {counted(stage.underfilled, 'request')}.",
                "The stages before it pass on too few candidates.",
                "Higher limits of the nominators fill them, or one more that always has candidates (popular); whether "
                "that gains is measured above.",
            )
            return  # the first of them explains the others


def _idle(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Nominators without a measurable effect that no other stage uses."""
    if len(diagnosis.nominators) < 2:
        return
    least = -REDUNDANT * (diagnosis.recall.mean or 0.0)
    without = {name: one.without for name, one in diagnosis.nominators.items()}
    idle = [
        name
        for name, change in without.items()
        if _redundant(change, least) and not diagnosis.dependents.get(name)
    ]
    if not idle:
        return
    changes = "; ".join(f"without {name!r} {points(without[name])}" for name in idle)
    better = [name for name in idle if rises(without[name].best_of(len(without)))]
    more = f" Recall is higher without {listed(better)}." if better else ""
    best = max(idle, key=lambda name: without[name].mean or 0.0)
    yield Finding(
        best,
        f"{_redundant_names(idle, len(without))}: {changes}.{more}",
        "Other nominators nominate the same relevant items, or later stages lose them.",
        _removal(idle),
        without[best],
        setting=f"leaving out {best!r}",
        advised=best in better,
    )


def _redundant_names(idle: list[str], count: int) -> str:
    if len(idle) == count:
        return "Every nominator is redundant on its own"
    return f"{listed(idle)} {'are' if idle[1:] else 'is'} redundant"


def _removal(idle: list[str]) -> str:
    """What leaving out nominators brings, and what it does not show."""
    together = (
        " Leave out one at a time and measure again: nominators of the same items replace each other."
        if idle[1:]
        else ""
    )
    names = listed(idle)
    return f"With later stages as trained, leaving out {names} saves time and costs no measurable recall.{together}"


def _redundant(without: Estimate, least: float) -> bool:
    """Whether the interval excludes a loss larger than `least`."""
    return without.low is not None and without.low > least and not falls(without)
