"""The smaller sections of a diagnosis' page: the verdict, segments, calibration, the catalogue."""

from typing import Any

from shortlist.diagnose.calibration import Calibration
from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.text import (
    counted,
    percent,
    points,
    unbroken,
    with_interval,
)
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.segments import Segment
from shortlist.report.diagnosis.plots import dots, reliability
from shortlist.report.page import Html, Section, escaped, facts, figure, table

ANSWERS = {
    "helps": "Yes, the stages before {stage!r} help it.",
    "hurts": "No, the stages before {stage!r} hurt it.",
    "undecided": "Undecided: the difference is not significant for these users.",
}


def verdict(diagnosis: Diagnosis) -> Section:
    """Whether the last scorer would do better on the whole catalogue."""
    title, found = "Do the first stages help the ranker?", diagnosis.verdict
    if isinstance(found, NotMeasured):
        return Section(title, [sentence(found)])
    rows = [
        [f"first item of {found.stage!r} is relevant, with the pipeline as it is", percent(found.accuracy)],
        ["the same when it scores the whole catalogue", percent(found.accuracy_full)],
        ["gain: right only because irrelevant items were removed before it", with_interval(found.gain)],
        ["loss: wrong because the relevant item was removed before it", with_interval(found.loss)],
    ]
    return Section(
        title,
        [
            "The stages before the last ranker save its time: it scores a few candidates instead of all items. They "
            "cost accuracy when they drop the item it would rank first, and gain accuracy when they drop irrelevant "
            "items it would rank first. Both are counted: the first choice of the ranker behind the other stages "
            f"against its first choice of the whole catalogue, for {counted(found.users, 'user')}.",
            Html(
                f"<p><strong>{escaped(_answer(found))}</strong> Gain less loss: {points(found.difference)}.</p>"
            ),
            table(["", "of the requests"], rows),
            *_threshold(found),
        ],
    )


def _answer(found: Verdict) -> str:
    if found.gain.mean == 0 and found.loss.mean == 0:
        return "No difference: the first item is as often relevant either way."
    return ANSWERS[found.answer].format(stage=found.stage)


def _threshold(found: Verdict) -> list[str]:
    if found.threshold is None or found.error_retrieved is None or found.threshold <= 0:
        return []
    return [
        f"Where a relevant item is a candidate, the ranker's first choice is irrelevant in "
        f"{percent(found.error_retrieved)} of the requests. The earlier stages help as long as fewer than "
        f"{percent(found.threshold)} of the requests have no relevant candidate; now {percent(found.missed)} have none."
    ]


def segments(diagnosis: Diagnosis) -> Section | None:
    """Recall by segment."""
    if not diagnosis.segments:
        return None
    rows = [(_label(segment), segment.recall) for segment in diagnosis.segments]
    return Section(
        "Recall by segment",
        [
            "The same account for segments of the users and of the items; an event is one interaction in the log. "
            f"With {len(rows)} segments about one interval in twenty misses its true value; segments of fewer than "
            "30 users are marked and have no interval.",
            figure(
                dots(rows, f"recall@{diagnosis.k}", diagnosis.recall.mean),
                f"Recall with interval; the dashed line is the recall of all {counted(diagnosis.users, 'user')}.",
            ),
            *_segment_tables(diagnosis),
        ],
    )


def _segment_tables(diagnosis: Diagnosis) -> list[Html]:
    """Segments of users with their precision@1; segments of items have none."""
    names = [stage.name for stage in diagnosis.stages]
    heads = ["segment", "users", "relevant items", "recall", "most are lost at"]
    rows, with_precision = [], []
    for segment in diagnosis.segments:
        row = _row(segment, names)
        if segment.precision_at_1 is None:
            rows.append(row)
        else:
            with_precision.append([*row, unbroken(with_interval(segment.precision_at_1))])
    first = [table([*heads, "precision@1"], with_precision)] if with_precision else []
    return [*first, *([table(heads, rows)] if rows else [])]


def _row(segment: Segment, names: list[str]) -> list[Any]:
    return [
        _label(segment) + (" (few users)" if segment.few else ""),
        segment.users,
        segment.relevant,
        unbroken(with_interval(segment.recall)),
        unbroken(_worst(segment, names)),
    ]


def _label(segment: Segment) -> str:
    """The name of a segment after its kind; what follows a colon in it explains it."""
    head, _, more = segment.name.partition(": ")
    return f"{segment.kind}: {head}" + (f" ({more})" if more else "")


def _worst(segment: Segment, names: list[str]) -> str:
    share, name = max(zip(segment.lost, names, strict=False), default=(0.0, ""))
    return f"{name} ({percent(share)})" if share else "–"


def calibration(diagnosis: Diagnosis) -> Section | None:
    """Whether scores can be used as probabilities."""
    title = "Are the scores calibrated?"
    measured = {name: one for name, one in diagnosis.calibration.items() if isinstance(one, Calibration)}
    reasons = [sentence(one) for one in diagnosis.calibration.values() if isinstance(one, NotMeasured)]
    if not measured:
        return Section(title, reasons) if reasons else None
    rows = [
        [
            name,
            one.users,
            percent(one.before.ece),
            percent(one.before.noise),
            number(one.temperature),
            percent(None if one.after is None else one.after.ece),
        ]
        for name, one in measured.items()
    ]
    heads = ["ranker", "users", "ECE", "ECE by noise alone", "temperature", "ECE after it"]
    series = {name: one.before.bins for name, one in measured.items()}
    users = "; ".join(f"{name}: {counted(one.users, 'user')}" for name, one in measured.items())
    return Section(
        title,
        [
            "A ranker is calibrated if its confidence equals its accuracy: of the first choices with a confidence of "
            "30 %, three in ten are relevant. This matters where scores are compared with other numbers (a price, "
            "another ranker); the order of the items does not depend on it. Scores become probabilities by a softmax "
            "over the candidates, unless the ranker gives probabilities; for users with several relevant items such a "
            "softmax is underconfident. ECE is the expected calibration error. The temperature divides the scores; it "
            "was fitted on other users.",
            figure(
                reliability(series, "confidence"),
                "Ten bins of first choices from low to high confidence: mean confidence against the share that is "
                f"relevant. On the dotted line both are equal. {users}.",
            ),
            table(heads, rows),
            *reasons,
        ],
    )


def coverage(diagnosis: Diagnosis) -> Section:
    """How much of the catalogue is used."""
    found = diagnosis.coverage
    alarm = ["Alarm: more than a fifth of the slates begin with the same item."] if found.collapse else []
    values = {
        "different items in all slates": f"{found.distinct:,} of {found.items:,} ({percent(found.share)})",
        "never nominated": f"{found.never_nominated:,} ({percent(found.never_share)})",
        "entropy of the slates (1: uniform)": number(found.entropy),
        "slates with the same first item": percent(found.first_share),
    }
    text = (
        f"Catalogue coverage of {counted(found.requests, 'request')}. An item that is never nominated cannot be "
        "returned."
    )
    return Section("How much of the catalogue is used?", [text, *alarm, facts(values)])


def sentence(reason: NotMeasured) -> str:
    """The reason why there are no numbers, as a sentence."""
    text = f"{reason.why[:1].upper()}{reason.why[1:]}"
    return text if text.endswith(".") else f"{text}."


def number(value: float | None) -> str:
    """Two decimals; a dash without a value."""
    return "–" if value is None else f"{value:.2f}"
