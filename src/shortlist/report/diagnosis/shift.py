"""Training beside serving on a diagnosis' page: what a ranker learned from, how, and what it is given now."""

from collections.abc import Mapping
from typing import Any

from shortlist.diagnose.findings.text import percent
from shortlist.report.diagnosis.parts import because, is_measured, number
from shortlist.report.diagnosis.plots import histograms
from shortlist.report.page import Html, Section, figure, table

Told = Mapping[str, Any]

FAR = 0.05  # recalls of training and serving that differ by less are called about the same

REHEARSED = {
    "earlier": "Rankers learn in a rehearsal: the histories of training users are cut in two, the stages before a "
    "ranker learn from the earlier parts alone and are asked for candidates, and what these users met later says which "
    "candidates were wanted.",
    "other-users": "Rankers learn in a rehearsal: training users are dealt into parts, the stages before a ranker "
    "learn from all parts but one and are asked for candidates for the users of that one, and what these users met "
    "later says which candidates were wanted.",
}
MODES = {
    "original": "every wanted item counts alike, whether it was among the candidates or not",
    "harmonised": "only wanted items that were among the candidates count, as it will be when it serves",
    "weighted": "every wanted item counts by how likely it is to be among the candidates",
    "mixed": "wanted items count more when they were among the candidates",
}
AGAINST = {
    "catalogue": "items drawn from the whole catalogue",
    "candidates": "other candidates of the same request",
    "both": "other candidates of the same request and items of the whole catalogue, half of each",
}


def shift(told: Told) -> Section | None:
    """Whether a ranker meets in service what it learned from."""
    measured = {name: one for name, one in told["shift"].items() if is_measured(one, "recall_serving")}
    why = [because(one, "") for name, one in told["shift"].items() if name not in measured]
    parts: list[Html | str] = [
        "A ranker is sure only of the kind of candidates it learned from. If the stages before it have changed "
        "since, or were rehearsed differently, it meets others when it serves: this is called shift.",
        *_learned(told),
        *(recalls(name, one) for name, one in measured.items()),
        *_numbers(measured),
        *_drawn(measured),
        *dict.fromkeys(one for one in why if one),
    ]
    return Section("Does it serve what it learned from?", parts) if len(parts) > 1 else None


def recalls(name: str, one: Told) -> str:
    """What the nominators found for a ranker in the rehearsal beside what they find now."""
    before, now = one["recall_training"], one["recall_serving"]
    if before is None or now is None:
        return f"{name!r}: nothing was wanted on one of the sides, so they cannot be compared."
    said = (
        f"Of the wanted items, {percent(before)} were among the candidates of {name!r} in the rehearsal, "
        f"{percent(now)} are now"
    )
    if abs(before - now) < FAR:
        return f"{said}: about the same, so what it learned from was a fair picture."
    if before > now:
        return f"{said}: the rehearsal was kinder than service is, and the ranker expects too much of its candidates."
    return f"{said}: service is kinder than the rehearsal was, so it is better off than it expects."


def _learned(told: Told) -> list[Html | str]:
    """How rankers were rehearsed, and which mode each learned in."""
    training = {name: told.get("training", {}).get(name, {}) for name in told["shift"]}
    modes = [line for name, one in training.items() for line in training_lines(name, one)]
    rehearsed = REHEARSED.get((told.get("rehearsal") or {}).get("rehearse", ""))
    return [*([rehearsed] if rehearsed and told["shift"] else []), *modes]


def training_lines(name: str, one: Told) -> list[str]:
    """How a ranker was trained, with the numbers of the guard; nothing of one that has no modes."""
    said = []
    if one.get("mode"):
        against = AGAINST.get(one.get("negatives", ""), "")
        said.append(
            f"{name!r} learned in the mode {one['mode']!r}: {MODES.get(one['mode'], '')}."
            + (f" Each is set against {against}." if against else "")
        )
    if one.get("harmony"):
        said.append(_guard(name, one["harmony"]))
    warned = [warning.removeprefix(f"{name}: ") for warning in one.get("warnings", ())]
    said += [f"Warning of its training: {warning}." for warning in warned]
    return said


def _guard(name: str, one: Told) -> str:
    """What of its examples a ranker that learns from the retrieved keeps."""
    dropped = (
        f" {one['dropped_items']:,} different items that were wanted ({percent(one['dropped_share'])} of the examples) "
        "were never among them."
        if one["dropped_items"]
        else ""
    )
    return (
        f"Of the {one['instances']:,} wanted items that {name!r} could learn from, {one['kept']:,} "
        f"({percent(one['recall'])}) were among its candidates; 10 % are thought to be the least for learning from "
        f"those alone.{dropped} Its weights leave it {percent(one['effective'])} of the examples' worth."
    )


def _numbers(measured: Told) -> list[Html | str]:
    if not measured:
        return []
    rows = [
        [
            name,
            one.get("level"),
            number(one.get("popularity_js")),
            number(one.get("score_ks")),
            number(one.get("auc")),
            percent(one.get("tv_lower_bound")),
            one.get("items_never_trained"),
        ]
        for name, one in measured.items()
    ]
    heads = ["ranker", "shift", "popularity", "scores", "told apart", "different at least", "items never met"]
    return [
        table(heads, rows),
        "Popularity: how far the popularity of the candidates differs (0: alike, 1: nothing in common). Scores: "
        "the largest gap between the two distributions of the ranker's scores (0 to 1). Told apart: how well a "
        "simple test can tell a candidate of training from one of serving (0.5: not at all, 1: always). "
        "Different at least: the share of candidates that must be of another kind for that. Items never met: "
        "candidates of serving that were not in the sample of training candidates that the bundle keeps.",
    ]


def _drawn(measured: Told) -> list[Html | str]:
    known = {name: one["histogram"] for name, one in measured.items() if one.get("histogram")}
    if not known:
        return []
    return [
        figure(
            histograms(known),
            "How popular the candidates are: the share of candidates whose item has so many events in the training "
            "log, in training and when it serves. Bars of equal height mean that the ranker meets what it knows.",
        )
    ]
