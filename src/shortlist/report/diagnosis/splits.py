"""Other splits of the slots over the nominators, for all users and by history length."""

from collections.abc import Sequence
from typing import Any

from shortlist.diagnose.findings.text import points
from shortlist.diagnose.nominators.report import NominationReport, SegmentNomination, SplitAdvice
from shortlist.diagnose.nominators.text import gains
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.report.diagnosis.cells import as_gain, in_points
from shortlist.report.page import Html, table


def split_parts(found: NominationReport) -> list[Html | str]:
    """The limits now, and those learned with as many candidates, or as many slots."""
    heading = Html("<h3>Another split of the slots</h3>")
    if isinstance(found.split, NotMeasured):
        return [heading, f"Not measured: {found.split.why}."]
    split, names = found.split, [*found.nominators]
    costs = split.ms is not None
    now = ["now", *split.current.values(), f"{split.candidates[0]:,.0f}"]
    rows = [[*now, *([f"{split.ms[0]:.1f}"] if split.ms else []), "", ""]]
    advice = {"same candidates": split, "same slots": found.same_slots}
    rows += [_split_row(name, one, costs) for name, one in advice.items() if isinstance(one, SplitAdvice)]
    within = "" if split.budget_ms is None else f" Requests may take {split.budget_ms:g} ms."
    return [
        heading,
        f"Limits that find most, learned on {split.users_fitted:,} users and measured on {split.users:,} others."
        f"{within} "
        "With the same slots a split without overlap gives later stages more to score, so its gain is not for free; "
        "compare pipelines with the same number of different candidates.",
        table(
            ["slots", *names, "candidates", *(["ms"] if costs else []), "gain of the pool", "gain of slates"],
            rows,
        ),
        f"With the same candidates: {gains(split)}. Slates: later stages ran again as trained; train the ranker again "
        "with other limits before you compare.",
    ]


def _split_row(name: str, split: SplitAdvice, costs: bool) -> list[Any]:
    ms = [] if not costs else ["–" if split.ms is None else f"{split.ms[1]:.1f}"]
    own = [name, *split.learned.values(), f"{split.candidates[1]:,.0f}", *ms]
    return [*own, as_gain(split.gain), as_gain(split.returned)]


def segment_parts(found: NominationReport) -> list[Html | str]:
    """What each nominator finds for users of similar history length, and their own limits."""
    names, parts = [*found.nominators], found.segments
    heads = ["users", "number", "pool recall", *(f"only {name}" for name in names)]
    rows = [
        [
            _label(one),
            one.users,
            in_points(one.recall),
            *(in_points(one.found[name].leave_one_out) for name in names),
        ]
        for one in parts
    ]
    made: list[Html | str] = [
        Html("<h3>By history length</h3>"),
        "Points of pool recall, and those that only one nominator finds.",
        table(heads, rows),
    ]
    if isinstance(found.split, SplitAdvice):
        made += [
            "Limits learned for each of these groups, with few relevant items drawn towards those of all. A stage "
            f"of type split serves them. For all users together the gain is {points(found.split.gain_by_segment)} of "
            f"pool recall, with one set of limits {points(found.split.gain)}.",
            table(["users", *names, "gain of the pool"], [_limits(one, names) for one in parts]),
        ]
    return made


def _limits(segment: SegmentNomination, names: Sequence[str]) -> list[Any]:
    gain = Html("–") if segment.gain is None else as_gain(segment.gain)
    return [_label(segment), *(segment.limits.get(name, "–") for name in names), gain]


def _label(segment: SegmentNomination) -> str:
    head, _, more = segment.name.partition(": ")
    return f"{head} ({more})" if more else head
