"""What nominators bring, in sentences for findings, pages and terminals."""

from shortlist.diagnose.findings.text import falls, points, rises, signed
from shortlist.diagnose.nominators.report import NominatorValue, SplitAdvice
from shortlist.metrics.estimate import Estimate


def brings(name: str, value: NominatorValue) -> str:
    """What a nominator costs, and the recall of the pool that no other nominator brings."""
    cost = "" if value.cost is None else f"costs {milliseconds(value.cost.ms)} and "
    alone = value.found.leave_one_out
    if alone.mean is None:
        return f"{name!r} {cost}finds nothing that could be measured"
    return (
        f"{name!r} {cost}brings {plain(alone.mean)} points of recall that nobody else brings{_bounds(alone)}"
    )


def refilled(value: NominatorValue) -> str:
    """The recall of the pool without a nominator whose places the others fill."""
    lost = value.found.refilled
    if lost is None or lost.mean is None:
        return "what the others would find in its place was not measured"
    change = Estimate(
        -lost.mean, None if lost.high is None else -lost.high, None if lost.low is None else -lost.low
    )
    end = " (not significant)" if change.low is not None and not rises(change) and not falls(change) else ""
    return f"with the others in its places the recall of the pool changes by {points(change)}{end}"


def limits(split: SplitAdvice) -> str:
    """The limits that change."""
    pairs = [(name, split.current[name], limit) for name, limit in split.learned.items()]
    return ", ".join(f"{name} {now} -> {limit}" for name, now, limit in pairs if now != limit)


def gains(split: SplitAdvice) -> str:
    """What a split gains before and after later stages, on users it was not learned on."""
    now, then = split.candidates
    return (
        f"{points(split.gain)} of pool recall and {points(split.returned)} of the recall of slates on "
        f"{split.users:,} users it was not learned on, with {then:,.0f} candidates per request instead of {now:,.0f}"
    )


def milliseconds(value: float) -> str:
    """Milliseconds with one decimal, or two below 0.1."""
    return f"{value:.1f} ms" if value >= 0.1 else f"{value:.2f} ms"


def plain(share: float) -> str:
    """A share in points without a sign."""
    return signed(share).lstrip("+")


def _bounds(value: Estimate) -> str:
    return "" if value.low is None or value.high is None else f" [{plain(value.low)}, {plain(value.high)}]"
