"""The smaller parts of a diagnosis' page: the verdict, nominators, segments, odds, the catalogue."""

from collections.abc import Mapping
from html import escape
from typing import Any

from shortlist.diagnose.findings.text import around, counted, falls, percent, points, rises, unbroken
from shortlist.report.diagnosis.plots import dots, reliability
from shortlist.report.page import Html, Section, facts, figure, table

Told = Mapping[str, Any]

ANSWERS = {
    "helps": "Yes, the stages before {stage!r} help.",
    "hurts": "No, the stages before {stage!r} do harm.",
    "undecided": "With these users it cannot be told from chance.",
}


KINDS = {"recency": "moment"}


def verdict(told: Told) -> Section:
    """Whether the last scorer would do better on the whole catalogue."""
    title = "Would it be better without the first stages?"
    one = told["verdict"] or {}
    if one.get("accuracy") is None:
        return Section(
            title, [because(one, "There is no scorer that could be asked about the whole catalogue.")]
        )
    heads = ["", "of the users"]
    rows = [
        [f"first item of {one['stage']!r} is wanted, as it is", percent(one["accuracy"])],
        ["the same when it scores the whole catalogue", percent(one["accuracy_flat"])],
        ["gain: right only because wrong items were kept from it", around(one["gain"])],
        ["loss: wrong because the right item was kept from it", around(one["loss"])],
    ]
    return Section(
        title,
        [
            "The stages before the last ranker make it fast: it looks at a few items instead of all. They may cost "
            "something, when the item it would have put first never reaches it. They may also gain something, when "
            "they keep away items that would have misled it. Both were counted: the ranker was asked for its single "
            f"best item once behind the other stages and once over the whole catalogue, for "
            f"{counted(one['users'], 'user')}.",
            Html(
                f"<p><strong>{escape(_answer(one))}</strong> Gain less loss: {points(one['difference'])}.</p>"
            ),
            table(heads, rows),
            *_threshold(one),
        ],
    )


def _answer(one: Told) -> str:
    if one["gain"]["mean"] == 0 and one["loss"]["mean"] == 0:
        return "It makes no difference: the same kind of item comes first either way."
    return ANSWERS[one["answer"]].format(stage=one["stage"])


def _threshold(one: Told) -> list[str]:
    said = []
    limit, error = one.get("threshold"), one.get("error_retrieved")
    if limit is not None and error is not None and limit > 0:
        said.append(
            f"Where a wanted item is among the candidates, the ranker's first choice is wrong {percent(error)} of the "
            "time. The stages before it pay as long as they keep every wanted item away from it in less than "
            f"{percent(limit)} of the requests; they do so in {percent(one.get('missed'))}."
        )
    if not one.get("pointwise", True):
        said.append(
            "This ranker looks at all candidates at once, so gain and loss need not explain the whole difference."
        )
    return said


def nominators(told: Told) -> Section | None:
    """Who names what is wanted, and who would be missed."""
    if not told["nominators"]:
        return None
    wanted = max(told["wanted"], 1)
    rows = [
        [
            name,
            f"{one['named']:,} ({percent(one['named'] / wanted)})",
            f"{one['alone']:,} ({percent(one['alone'] / wanted)})",
            unbroken(points(one["without"])),
            _missed(one["without"]),
        ]
        for name, one in told["nominators"].items()
    ]
    heads = ["nominator", "wanted items it names", "named by it alone", "returned without it", ""]
    return Section(
        "Who finds it, and who would be missed?",
        [
            "Each nominator was silenced in turn and the funnel asked again: a minus is what would be lost without it. "
            "A nominator may name much and not be missed, when the others name the same.",
            table(heads, rows),
        ],
    )


def _missed(without: Told) -> str:
    if falls(without):
        return "would be missed"
    return "better without it" if rises(without) else "not measurably missed"


def segments(told: Told) -> Section | None:
    """For whom it works."""
    listed = told["segments"]
    if not listed:
        return None
    return Section(
        "For whom does it work?",
        [
            "The same account for parts of the users and parts of the items; an event is one meeting of a user with "
            "an item in the log. With many parts some differ by chance alone; parts with fewer than 30 users are "
            "marked and have no interval.",
            figure(
                dots(
                    [(_spoken(one), one["recall"]) for one in listed],
                    "of the wanted items returned",
                    told["recall"]["mean"],
                ),
                "Share returned, with interval; the dashed line is everyone together. "
                f"{counted(told['users'], 'user')}.",
            ),
            *_segment_tables(told),
        ],
    )


def _segment_tables(told: Told) -> list[Html]:
    """Parts of the users with how often the first item of their slates is wanted; other parts have no first item."""
    names = [one["name"] for one in told["stages"]]
    heads = ["segment", "users", "wanted items", "returned", "most is lost at"]
    firsts = [one for one in told["segments"] if one.get("precision_at_1")]
    others = [one for one in told["segments"] if not one.get("precision_at_1")]
    rows = [_row(one, names) for one in others]
    with_first = [[*_row(one, names), unbroken(around(one["precision_at_1"]))] for one in firsts]
    parts = [table([*heads, "first item wanted"], with_first)] if firsts else []
    return [*parts, *([table(heads, rows)] if rows else [])]


def _row(one: Told, names: list[str]) -> list[Any]:
    few = " (few users)" if one.get("few") else ""
    return [
        _spoken(one) + few,
        one["users"],
        one["wanted"],
        unbroken(around(one["recall"])),
        unbroken(_worst(one["lost"], names)),
    ]


def _spoken(one: Told) -> str:
    """The name of a segment after its kind; what follows a colon in it explains it."""
    head, _, more = one["name"].partition(": ")
    return f"{KINDS.get(one['kind'], one['kind'])}: {head}" + (f" ({more})" if more else "")


def _worst(lost: Any, names: list[str]) -> str:
    pairs = [(share, name) for share, name in zip(lost, names, strict=False) if share is not None]
    share, name = max(pairs, default=(0.0, ""))
    return f"{name} ({percent(share)})" if share else "–"


def calibration(told: Told) -> Section | None:
    """Whether scores can be read as odds."""
    measured = {
        name: one for name, one in told["calibration"].items() if is_measured(one, "bins") and one["bins"]
    }
    why = [because(one, "") for name, one in told["calibration"].items() if name not in measured]
    if not measured:
        return Section("Can its numbers be read as odds?", why) if any(why) else None
    rows = [
        [
            name,
            one["users"],
            percent(one["ece"]),
            percent(one.get("by_chance")),
            number(one["temperature"]),
            percent((one.get("after") or {}).get("ece")),
        ]
        for name, one in measured.items()
    ]
    heads = ["ranker", "users", "off on average", "by chance alone", "temperature", "off after it"]
    series = {name: one["bins"] for name, one in measured.items()}
    return Section(
        "Can its numbers be read as odds?",
        [
            "When a ranker says that its first choice has a chance of 30 %, three in ten such choices should come "
            "true: then it is calibrated. This matters where numbers are compared with other numbers (a price, "
            "another ranker); the order of the items does not depend on it. Scores are first turned into shares "
            "that add up to 100 % over all candidates, unless the ranker gives chances itself; where users want "
            "several items at once, such a share says less than comes true. The temperature is the number by which "
            "to divide scores to be nearest to the truth, found on other users.",
            figure(
                reliability(series, "the ranker says"),
                "Ten groups from unsure to sure: what the ranker says of its first choice against how often it was "
                f"wanted. On the dotted line both agree. {_users(measured)}",
            ),
            table(heads, rows),
            *[one for one in why if one],
        ],
    )


def coverage(told: Told) -> Section | None:
    """How much of the catalogue anybody gets to see."""
    one = told.get("coverage")
    if not one:
        return None
    alarm = "Alarm: more than a fifth of the slates begin with the same item." if one["collapse"] else ""
    named = {
        "different items in all slates": f"{one['distinct']:,} of {one['items']:,} ({percent(one['share'])})",
        "named for nobody": f"{one['never_nominated']:,} ({percent(one['never_share'])})",
        "evenness (1: all items alike)": number(one["entropy"]),
        "slates with the same first item": percent(one["first_share"]),
    }
    said = (
        f"What {counted(one['requests'], 'request')} together show of the catalogue. An item that no nominator ever "
        "names cannot be returned, however good the rest is."
    )
    return Section("How much of the catalogue is used?", [said, *([alarm] if alarm else []), facts(named)])


def _users(measured: Told) -> str:
    return "; ".join(f"{name}: {counted(one['users'], 'user')}" for name, one in measured.items()) + "."


def is_measured(one: Any, key: str) -> bool:
    """Whether there are numbers, and not only a reason why there are none."""
    return isinstance(one, Mapping) and key in one


def because(one: Any, otherwise: str) -> str:
    """The sentence that says why there are no numbers."""
    if isinstance(one, str):
        return one
    why = str(one.get("why") or otherwise)
    return f"{why[:1].upper()}{why[1:]}." if why and not why.endswith(".") else why


def number(value: float | None) -> str:
    """Two digits after the point; a dash where there is nothing."""
    return "–" if value is None else f"{value:.2f}"
