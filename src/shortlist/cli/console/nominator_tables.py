"""What several nominators bring, on a terminal."""

from collections.abc import Iterator

from rich.box import SIMPLE

from shortlist.cli.console.output import Table
from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.nominators.report import NominationReport, NominatorValue, SplitAdvice
from shortlist.diagnose.nominators.text import gains, limits
from shortlist.metrics.estimate import Estimate

CAPTION = """Points of pool recall (before the first cut). alone: with this nominator only. Shapley: an item of m
nominators counts 1 / m; the column adds up to the recall of the pool. only it: what no other finds. refilled: lost
without it when the others fill its places; below 0 they do better. ms: median of single
requests."""


def nomination_table(found: NominationReport) -> Table:
    """A row per nominator: its cost and its part of the recall of the pool."""
    title = f"what each nominator brings to a pool recall of {_points(found.recall)} points"
    table = Table(
        title=title,
        title_justify="left",
        caption=" ".join(CAPTION.split()),
        caption_justify="left",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    heads = ("nominator", "slots", "ms", "alone", "Shapley", "only it", "refilled")
    for name in heads:
        table.add_column(
            name, justify="left" if name == "nominator" else "right", no_wrap=name != "nominator"
        )
    for name, value in found.nominators.items():
        table.add_row(name, *_cells(value))
    return table


def split_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """The learned split, and items that nobody nominates."""
    found = diagnosis.nomination
    if found is None:
        return
    slates = [(name, one.returned_shapley) for name, one in found.nominators.items()]
    if any(one is not None for _, one in slates):
        values = ", ".join(f"{name} {_points(one)}" for name, one in slates)
        yield f"Shapley values of the recall of slates, in points: {values}"
    for what, split in (("candidates", found.split), ("slots", found.same_slots)):
        if not isinstance(split, SplitAdvice):
            yield f"split over nominators: {split.why}"
            break
        change = f"{limits(split)}: {gains(split)}" if split.changed else "the limits as they are"
        yield f"split with the same {what}: {change}"
    never = diagnosis.coverage
    if never.never_nominated:
        yield (
            f"nominated by no nominator: {never.never_nominated:,} of {never.items:,} items ({never.never_share:.1%})"
        )


def _cells(value: NominatorValue) -> list[str]:
    found = value.found
    return [
        f"{value.limit:,}",
        "–" if value.cost is None else f"{value.cost.ms:.2f}",
        _middle(found.solo),
        _middle(found.shapley),
        _points(found.leave_one_out),
        _points(found.refilled),
    ]


def _middle(share: Estimate) -> str:
    return "–" if share.mean is None else _tenths(share.mean)


def _points(share: Estimate | None) -> str:
    """A share in hundredths with its interval."""
    if share is None or share.mean is None:
        return "–"
    middle = _tenths(share.mean)
    if share.low is None or share.high is None:
        return middle
    return f"{middle} [{_tenths(share.low)}, {_tenths(share.high)}]"


def _tenths(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f}"  # + 0.0: no negative zero
