"""Cells of tables: a share or a gain with its interval in small print."""

from shortlist.diagnose.findings.text import signed
from shortlist.diagnose.nominators.text import plain
from shortlist.metrics.estimate import Estimate
from shortlist.report.funnel_tables import with_bounds
from shortlist.report.page import Html


def in_points(share: Estimate | None) -> Html:
    """Points with their interval in small print."""
    if share is None or share.mean is None:
        return Html("–")
    bounds = "" if share.low is None or share.high is None else f"[{plain(share.low)}, {plain(share.high)}]"
    return with_bounds(f"{plain(share.mean)} {bounds}")


def as_gain(change: Estimate) -> Html:
    """A change in points with its interval in small print."""
    if change.mean is None:
        return Html("–")
    bounds = (
        "" if change.low is None or change.high is None else f"[{signed(change.low)}, {signed(change.high)}]"
    )
    return with_bounds(f"{signed(change.mean)} {bounds}")


def in_percent(share: Estimate) -> Html:
    if share.mean is None:
        return Html("–")
    bounds = "" if share.low is None or share.high is None else f"[{share.low:.1%}, {share.high:.1%}]"
    return with_bounds(f"{share.mean:.1%} {bounds}")


def points_text(share: Estimate) -> str:
    if share.mean is None:
        return "none"
    return plain(share.mean) + (
        "" if share.low is None else f" [{plain(share.low)}, {plain(share.high or 0.0)}]"
    )
