"""The section about nominators: what each finds, costs and shows, and how to split the slots."""

from collections.abc import Sequence
from typing import Any

from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.text import counted, falls, listed, percent, points, rises, unbroken
from shortlist.diagnose.nominators.report import NominationReport, NominatorValue
from shortlist.diagnose.nominators.text import brings
from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.cells import in_percent, in_points, points_text
from shortlist.report.diagnosis.nominator_plots import reveal_scatter, share_bars
from shortlist.report.diagnosis.splits import segment_parts, split_parts
from shortlist.report.page import Html, Section, escaped, figure, table


def nominators(diagnosis: Diagnosis) -> Section | None:
    """What each nominator retrieves, shows and costs, and whether it is missed."""
    if not diagnosis.nominators:
        return None
    found = diagnosis.nomination
    more: list[Html | str] = []
    if found is not None:
        several = len(found.nominators) > 1
        more = [
            *_found(found),
            *_shown(found),
            *(_overlap(found) if several else []),
            *split_parts(found),
            *(segment_parts(found) if found.segments else []),
        ]
    return Section("Nominators", [*_needed(diagnosis), *more, *_never(diagnosis)])


def _needed(diagnosis: Diagnosis) -> list[Html | str]:
    """Each left out in turn, with its effect on slates."""
    relevant = max(diagnosis.relevant, 1)
    rows = [
        [
            name,
            f"{report.nominated:,} ({percent(report.nominated / relevant)})",
            f"{report.unique:,} ({percent(report.unique / relevant)})",
            unbroken(points(report.without)),
            _missed(report.without, diagnosis.dependents.get(name, ())),
        ]
        for name, report in diagnosis.nominators.items()
    ]
    return [
        "Each nominator was left out in turn and the funnel run again: a negative number is the recall lost without "
        "it. A nominator may nominate many relevant items and not be missed, if others nominate the same.",
        table(["nominator", "relevant items nominated", "by it alone", "recall without it", ""], rows),
    ]


def _missed(without: Estimate, dependents: Sequence[str]) -> str:
    if dependents:
        return f"used by {listed([*dependents])}"
    if falls(without):
        return "needed"
    return "better without it" if rises(without) else "no significant effect"


def _found(found: NominationReport) -> list[Html | str]:
    """What each nominator brings to the pool, in sentences, numbers and bars."""
    sentences = "".join(f"<li>{escaped(brings(*one))}.</li>" for one in found.nominators.items())
    slates = any(one.returned_shapley is not None for one in found.nominators.values())
    heads = [
        "nominator",
        "slots",
        "candidates",
        "ms",
        "alone",
        "Shapley",
        "leave-one-out",
        "refilled",
        "points per ms",
        *(["Shapley of slates"] if slates else []),
    ]
    rows = [[name, *_numbers(value, slates)] for name, value in found.nominators.items()]
    return [
        Html("<h3>What each brings to the pool</h3>"),
        f"Together they return {found.raw:,.0f} items per request, {found.distinct:,.0f} of them different, and find "
        f"{points_text(found.recall)} of 100 points of recall: the mean over {counted(found.users, 'user')} of the "
        "share of their relevant items in the pool, before any cut.",
        Html(f"<ul>{sentences}</ul>"),
        table(heads, rows),
        "Points of pool recall. Alone: with this nominator only. Shapley: an item of m nominators counts 1 / m for "
        "each, so the column adds up to the recall of the pool. Leave-one-out: what no other finds; it overstates the "
        "harm, because the places stay empty. Refilled: what is lost when the others get slots for as many different "
        "candidates; this is the number to decide by, and below 0 they do better. Their slots are given away on one "
        "half of the users and counted on the other. Milliseconds: median of single requests on one thread, with the "
        "scores a nominator gives to candidates of others.",
        figure(
            share_bars(found.nominators),
            f"Four answers to the same question, with intervals. {counted(found.users, 'user')}, "
            f"{counted(found.relevant, 'relevant item')}.",
        ),
    ]


def _numbers(value: NominatorValue, slates: bool) -> list[Any]:
    found, per_ms = value.found, value.points_per_ms
    return [
        value.limit,
        f"{value.returned:,.0f}",
        "–" if value.cost is None else f"{value.cost.ms:.2f}",
        *(in_points(one) for one in (found.solo, found.shapley, found.leave_one_out, found.refilled)),
        "–" if per_ms is None else f"{100 * per_ms:.2f}",
        *([in_points(value.returned_shapley)] if slates else []),
    ]


def _shown(found: NominationReport) -> list[Html | str]:
    """Which items of the slates each nominator nominated."""
    rows = [
        [
            name,
            *(in_percent(one) for one in (reveal.share, reveal.first, reveal.split, reveal.alone)),
            "–" if reveal.efficiency is None else f"{reveal.efficiency:.2f}",
            in_percent(reveal.relevant),
        ]
        for name, reveal in ((name, value.reveal) for name, value in found.nominators.items())
    ]
    heads = ["nominator", "nominated it", "first", "1 / m", "alone", "efficiency", "relevant"]
    return [
        Html("<h3>What slates show of it</h3>"),
        "The reveal ratio: items of slates by nominator. Nominated it: counted for each of its nominators. First: for "
        "the one with the best rank. 1 / m: divided between its m nominators. Alone: no other nominates it. "
        "Efficiency: 1 / m over the share of slots. Relevant: of the items it nominated. A high ratio says that the "
        "ranker prefers a nominator, not that it is good: one that imitates the ranker is shown often and finds "
        "nothing new.",
        table(heads, rows),
        figure(
            reveal_scatter(found.nominators),
            "To the right: brings recall that nobody else brings. Above: fills slates. "
            f"{counted(found.users, 'user')}, with intervals.",
        ),
    ]


def _overlap(found: NominationReport) -> list[Html | str]:
    """The share of the candidates of the row that the column nominates too."""
    names = [*found.nominators]
    rows = [
        [name, *(_shaded(None if name == other else found.overlap[name][other]) for other in names)]
        for name in names
    ]
    return [
        Html("<h3>Overlap</h3>"),
        "The share of the candidates of the row that the column nominates too.",
        table(["", *names], rows),
    ]


def _shaded(share: float | None) -> Html:
    if share is None:
        return Html("–")
    return Html(
        f'<span style="background: rgba(47, 111, 143, {0.7 * share:.2f}); padding: 0 0.5rem">{share:.0%}</span>'
    )


def _never(diagnosis: Diagnosis) -> list[str]:
    """Items that nobody nominates."""
    one = diagnosis.coverage
    if not one.never_nominated:
        return []
    return [
        f"Alarm: no nominator nominated {one.never_nominated:,} of {one.items:,} items ({percent(one.never_share)}) "
        f"for any of {counted(one.requests, 'request')}. No later stage can return them."
    ]
