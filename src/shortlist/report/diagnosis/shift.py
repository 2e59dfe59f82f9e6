"""Training against serving on a diagnosis' page: the candidates a ranker was trained on, how, and those it receives."""

from collections.abc import Mapping

from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.text import percent
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.shift import Shift
from shortlist.pipeline.about import RetrievedTargets, TrainingHistory
from shortlist.report.diagnosis.parts import number, sentence
from shortlist.report.diagnosis.plots import histograms
from shortlist.report.page import Html, Section, figure, table

SIMILAR = 0.05  # recalls of training and serving that differ by less are called similar

OUT_OF_FOLD = {
    "earlier": "Rankers are trained on out-of-fold candidates: the histories of training users are cut in time, the "
    "stages before a ranker are trained on the earlier events alone, and the later events are the targets.",
    "other-users": "Rankers are trained on out-of-fold candidates: training users are divided into folds, the stages "
    "before a ranker are trained on all folds but one, and give the candidates for the users of that one.",
}
MODES = {
    "original": "all targets are used, whether they were candidates or not",
    "harmonised": "only targets that were among the candidates are used, as at serving",
    "weighted": "targets are weighted by their probability to be among the candidates",
    "mixed": "targets have a larger weight if they were among the candidates",
}
NEGATIVES = {
    "catalogue": "random items of the whole catalogue",
    "candidates": "sampled candidates of the same request",
    "all-candidates": "all other candidates of the same request",
    "both": "sampled candidates of the same request and random items of the whole catalogue, half of each",
}


def shift(diagnosis: Diagnosis) -> Section | None:
    """Whether a ranker receives candidates like those it was trained on."""
    measured = {name: one for name, one in diagnosis.shift.items() if isinstance(one, Shift)}
    reasons = [sentence(one) for one in diagnosis.shift.values() if isinstance(one, NotMeasured)]
    parts: list[Html | str] = [
        "A ranker is reliable only on candidates like those it was trained on. If the stages before it have changed "
        "since, or gave other candidates in training, its candidates at serving differ: distribution shift.",
        *_training(diagnosis),
        *(recalls(name, one) for name, one in measured.items()),
        *_numbers(measured),
        *_histograms(measured),
        *dict.fromkeys(reasons),
    ]
    return Section("Does serving match training?", parts) if len(parts) > 1 else None


def recalls(name: str, one: Shift) -> str:
    """The recall of the candidates in training beside that at serving."""
    before, now = one.recall_training, one.recall_serving
    if before is None or now is None:
        return f"{name!r}: one side has no relevant items, so recalls cannot be compared."
    text = (
        f"{percent(before)} of the targets were among the training candidates of {name!r}, {percent(now)} of the "
        "relevant items are among its candidates at serving"
    )
    if abs(before - now) < SIMILAR:
        return f"{text}: similar, so training was representative."
    if before > now:
        return f"{text}: training had better candidates than serving."
    return f"{text}: serving has better candidates than training had."


def _training(diagnosis: Diagnosis) -> list[str]:
    """How training candidates were made, and the mode each ranker was trained with."""
    if not diagnosis.shift:
        return []
    histories = {name: diagnosis.about.training.get(name) for name in diagnosis.shift}
    lines = [line for name, one in histories.items() if one for line in training_lines(name, one)]
    made = OUT_OF_FOLD.get(diagnosis.about.out_of_fold.out_of_fold) if diagnosis.about.training else None
    return [*([made] if made else []), *lines]


def training_lines(name: str, one: TrainingHistory) -> list[str]:
    """How a ranker was trained; nothing for one without modes."""
    lines = []
    if one.mode:
        negatives = NEGATIVES.get(one.negatives or "", "")
        lines.append(
            f"{name!r} was trained with mode = {one.mode!r}: {MODES.get(one.mode, '')}."
            + (f" Its negatives are {negatives}." if negatives else "")
        )
    if one.retrieved is not None:
        lines.append(_retrieved(name, one.retrieved))
    warnings = [warning.removeprefix(f"{name}: ") for warning in one.warnings]
    return [*lines, *(f"Warning of its training: {warning}." for warning in warnings)]


def _retrieved(name: str, one: RetrievedTargets) -> str:
    """How many of its targets were retrieved."""
    missing = (
        f" {one.missing_items:,} different target items ({percent(one.missing_share)} of the instances) were never "
        "among them."
        if one.missing_items
        else ""
    )
    return (
        f"Of the {one.instances:,} training targets of {name!r}, {one.retrieved:,} ({percent(one.recall)}) were among "
        f"its candidates; training on those alone needs 10 % at least.{missing} The effective sample size of its "
        f"weights is {percent(one.effective_share)} of the instances."
    )


def _numbers(measured: Mapping[str, Shift]) -> list[Html | str]:
    if not measured:
        return []
    rows = [
        [
            name,
            one.level,
            number(one.popularity_js),
            number(one.score_ks),
            number(one.auc),
            percent(one.tv_lower_bound),
            one.items_not_in_training,
        ]
        for name, one in measured.items()
    ]
    heads = [
        "ranker",
        "shift",
        "popularity JS",
        "score KS",
        "AUC",
        "different at least",
        "items not in training",
    ]
    return [
        table(heads, rows),
        "Popularity JS: Jensen-Shannon divergence of the popularity of the candidates (0: the same, 1: disjoint). "
        "Score KS: the largest gap between the two distributions of the ranker's scores (0 to 1). AUC: of a "
        "classifier that separates training candidates from candidates at serving (0.5: it cannot). Different at "
        "least: the lower bound of the total variation distance from that classifier. Items not in training: "
        "candidates at serving that are not in the bundle's stored sample of training candidates.",
    ]


def _histograms(measured: Mapping[str, Shift]) -> list[Html]:
    known = {name: one.histogram for name, one in measured.items() if one.histogram}
    if not known:
        return []
    return [
        figure(
            histograms(known),
            "Popularity of the candidates: the share of candidates whose item has the given number of training "
            "events, in training and at serving. Bars of equal height mean no shift of popularity.",
        )
    ]
