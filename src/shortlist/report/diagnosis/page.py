"""The page of a diagnosis: which stage loses what is wanted, why, and what to do, for people who read no papers."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from shortlist.diagnose.findings.findings import avoidable, in_short, worst_of
from shortlist.diagnose.findings.text import around, counted, falls, percent, points, rises, unbroken
from shortlist.report.diagnosis.budget import budget_section
from shortlist.report.diagnosis.parts import calibration, coverage, nominators, segments, verdict
from shortlist.report.diagnosis.plots import gains, waterfall
from shortlist.report.diagnosis.shift import shift
from shortlist.report.diagnosis.trees import trees
from shortlist.report.page import Html, Section, facts, figure, page, table

FIRST = 3  # findings that are told at once

Told = Mapping[str, Any]


def diagnosis_page(told: Told) -> str:
    """One HTML document from what `diagnose` found."""
    about = told["about"]
    parts = [
        _short(told),
        _losses(told),
        _gains(told),
        _knobs(told),
        _more(told),
        verdict(told),
        nominators(told),
    ]
    parts += [
        segments(told),
        coverage(told),
        shift(told),
        calibration(told),
        _budget(told),
        *trees(told),
        _measured(told),
    ]
    sections = [one for one in parts if one is not None]
    return page(f"Where {about['name']!r} loses what people want, on the data {about['data']!r}", sections)


def _short(told: Told) -> Section:
    return Section(
        "In short",
        [
            "A recommender is a funnel: stages one after the other, each of which passes on fewer items, until at most "
            f"{told['k']:,} are left to show, the slate. {_kinds(told)} Whatever is still in the running is called a "
            "candidate.",
            "A wanted item is something that a user of the sample really met right after the moment at which we "
            "ask; the recommender has not seen it. Every wanted item is followed through the stages: it is either "
            "returned in the slate, or lost at exactly one of them.",
            *(Html(f"<p><strong>{escape(sentence)}</strong></p>") for sentence in in_short(told)),
            "Numbers in square brackets say how sure a value is: asked with other users of the same kind, it would "
            "lie between them 95 times in 100. A point is one wanted item in a hundred. A gain whose brackets hold "
            "0 may be chance.",
            *_warnings(told),
            *_numbered(told["findings"][:FIRST], 1),
        ],
    )


def _warnings(told: Told) -> list[Html]:
    return [Html(f"<p><em>Mind: {escape(one)}</em></p>") for one in told["warnings"]]


def _numbered(findings: Sequence[Told], first: int) -> list[Html]:
    return [
        Html(
            f"<p><strong>{number}. {escape(one['what'])}</strong><br>{escape(one['why'])}"
            f"<br>→ {escape(one['knob'])}</p>"
        )
        for number, one in enumerate(findings, start=first)
    ]


def _losses(told: Told) -> Section | None:
    stages, wanted = told["stages"], told["wanted"]
    if not stages or not wanted:
        return None
    heads = [
        "stage",
        "kind",
        "came in",
        "lost",
        "of all wanted",
        "avoidable",
        "of what came in",
        "candidates after it",
    ]
    rows = [
        [
            unbroken(one["name"] + (" ← biggest" if one["name"] == worst_of(told) else "")),
            one["kind"],
            one["entered"],
            one["lost"],
            unbroken(around(one["share"])),
            percent(avoidable(one) / wanted),
            percent(one["conditional"]),
            f"{one['candidates']:,.0f}",
        ]
        for one in stages
    ]
    return Section(
        "Where wanted items are lost",
        [
            figure(
                waterfall(stages, wanted, worst_of(told)),
                "Read from the top: each coloured piece is what a stage loses of all wanted items, with its "
                "interval as a thin line; grey is what goes on to the next stage. Hatched: slates have no place "
                "for it in the end, because a user wanted more items than they hold. Orange: the biggest loss that "
                "could be avoided. " + _counted(told),
            ),
            table(heads, rows),
            "Avoidable: the share of all wanted items that were lost here though the slates had a place for them. "
            f"Slates of {told['k']} can hold {percent(told.get('possible', 1.0))} of what is wanted.",
            f"The account is exact: {wanted:,} wanted = {wanted - told['returned']:,} lost + {told['returned']:,} "
            f"returned. The first item of the slate is a wanted one for {around(told['precision_at_1'])} of the "
            "requests.",
        ],
    )


def _kinds(told: Told) -> str:
    """The kinds of stages that are there, each explained once."""
    words = {
        "nominator": "nominators propose some hundred items out of the catalogue, side by side (together they are the "
        "pool)",
        "filter": "filters take out what must not be shown",
        "hydrator": "hydrators look up facts",
        "scorer": "rankers, also called scorers, give each item a number and let the best through",
        "selector": "a selector chooses the slate, often with an eye on variety",
    }
    said = "; ".join(
        said for kind, said in words.items() if any(one["kind"] == kind for one in told["stages"])
    )
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _gains(told: Told) -> Section | None:
    if not told["stages"] or not told["wanted"]:
        return None
    rows = [
        [
            one["name"],
            _or_dash(one["what_if"]["oracle"]),
            _or_dash(one["what_if"].get("order")),
            f"{100 * one['what_if']['same_rates']:+.1f}",
            f"{100 * one['what_if']['ceiling']:+.1f}",
        ]
        for one in told["stages"]
    ]
    heads = [
        "stage",
        "perfect, others as they are",
        "and scores them highest",
        "guess by rates",
        "nothing lost again",
    ]
    return Section(
        "What would a perfect stage bring?",
        [
            "Not every loss is worth mending: what one stage saves, the next may lose. So each stage in turn was "
            "replaced by a perfect one, an oracle, which keeps wanted items before all others, and everything after "
            "it was run again. An oracle looks at the answers. Nobody can install one: it shows how much there is "
            "to win, and where work would be wasted.",
            figure(
                gains(told["stages"], worst_of(told)),
                "Full bars: wanted items that come out at the end when this stage alone is perfect, measured, with "
                "interval. Triangle: the same when it also gives them the highest scores, for later stages to go "
                "by. Dashed: all that the stage loses, as if nothing after it lost any of that again. Diamond: a "
                "guess that rescued items would fare like the others; rescued ones are often harder, so "
                "trust the bars. " + _counted(told),
            ),
            table(heads, rows),
        ],
    )


def _or_dash(one: Told | None) -> str:
    return unbroken(points(one)) if one and one["mean"] is not None else "–"


def _knobs(told: Told) -> Section | None:
    if not told["knobs"]:
        return None
    turned = [one for one in told["knobs"] if one["gain"] is not None]
    rows = [
        [
            one["stage"],
            unbroken(f"{one['label']} = {one['setting']}"),
            unbroken(points(one["gain"])),
            "–" if one["candidates"] is None else f"{one['candidates']:,.0f}",
            _sure(one["gain"]),
        ]
        for one in sorted(turned, key=lambda one: -(one["gain"]["mean"] or 0.0))
    ]
    return Section(
        "Knobs that were really turned",
        [
            "A knob is a setting of the recommender. Each was changed alone, and the whole funnel was asked again "
            "for the same users. Unlike an oracle, these settings can be had. The best of many tries is partly "
            "luck: expect a little less of it than it shows here.",
            *([table(["stage", "setting", "gain", "candidates after it", ""], rows)] if rows else []),
            *_not_turned(told["knobs"]),
        ],
    )


def _sure(gain: Told) -> str:
    """Whether a gain is one."""
    if gain["low"] is None:
        return ""
    return "better" if rises(gain) else "worse" if falls(gain) else "may be chance"


def _not_turned(knobs: Sequence[Told]) -> list[str]:
    """What was not measured, and why."""
    failed = [one for one in knobs if one["gain"] is None and one.get("why")]
    said = [
        f"{one['label']} = {one['setting']} at {one['stage']!r} could not be trained: {one['why']}"
        for one in failed
    ]
    waiting = [one for one in knobs if one["gain"] is None and not one.get("why")]
    if waiting:
        named = "; ".join(f"{one['label']} = {one['setting']} at {one['stage']!r}" for one in waiting)
        said.append(
            f"Not measured, because it needs training: {named}. With --retrain each is trained and measured, too."
        )
    return said


def _more(told: Told) -> Section | None:
    rest = told["findings"][FIRST:]
    return Section("What else is worth knowing", _numbered(rest, FIRST + 1)) if rest else None


def _budget(told: Told) -> Section | None:
    return budget_section(told["budget"]) if told.get("budget") else None


def _measured(told: Told) -> Section:
    about = told["about"]
    named = ("pipeline", "model", "data", "fingerprint", "split", "package")
    return Section(
        "How it was measured",
        [
            f"A sample of {counted(told['users'], 'user')} with {counted(told['wanted'], 'wanted item')}, none of "
            "which the bundle had learned from. Knobs were turned and nominators silenced for "
            f"{told['sample']['knobs']:,} of these users, the whole catalogue was scored for "
            f"{told['sample']['verdict']:,}. Intervals come from drawing the users "
            "again, with repeats, a thousand times (a bootstrap), always whole users; with fewer than 30 users there "
            "are none. How much a training with another seed would differ is not in them.",
            "Whatever is called perfect or an oracle looks at the answers and cannot be deployed.",
            facts(
                {
                    "users": told["users"],
                    "wanted items": told["wanted"],
                    "seed of the sample": told["seed"],
                    "seconds": round(told["seconds"], 1),
                    "trained with seed": about.get("seed"),
                }
            ),
            table(["", ""], [[name, about[name]] for name in named if name in about]),
        ],
    )


def _counted(told: Told) -> str:
    return f"{counted(told['users'], 'user')}, {counted(told['wanted'], 'wanted item')}."
