"""Tables of a funnel as one system, for `evaluate`, `diagnose` and `log funnel`."""

from collections.abc import Mapping

from shortlist.cli.console.output import Table
from shortlist.evaluate.funnel import FunnelMetrics, RevealRatio
from shortlist.report.page import interval


def funnel_table(funnel: FunnelMetrics) -> Table:
    """What every stage keeps of the relevant items of a request, and how far it keeps the order before it."""
    title = f"the funnel, per request: Recall@k@{funnel.slots} {interval(funnel.joint_recall)}"
    table = Table(title=title, title_justify="left")
    for name in ("stage", "recall after", "utility lost", "best kept", "tau-b", "overlap"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    order = {one.second: one for one in funnel.agreement}
    for stage in funnel.stages:
        own = order.get(stage.name)
        means = ("", "", "") if own is None else (own.share_kept, own.tau_b, own.rbo)
        shown = (one if isinstance(one, str) else f"{one.mean:.3f}" for one in means)
        table.add_row(stage.name, f"{stage.recall.mean:.4f}", f"{stage.utility_lost.mean:.4f}", *shown)
    return table


def reveal_table(nominators: Mapping[str, RevealRatio], revealed: str = "served") -> Table:
    """How much of what a nominator returns is served, or shown."""
    title = "reveal ratio of nominators (split: 1 / m for an item of m)"
    table = Table(title=title, title_justify="left")
    for name in ("nominator", "returned", "yield", "split", f"share of {revealed}", "split"):
        table.add_column(name, justify="left" if name == "nominator" else "right")
    for name, own in nominators.items():
        ratios = (own.reveal_yield, own.reveal_yield_split, own.reveal_share, own.reveal_share_split)
        table.add_row(name, f"{own.returned:.1f}", *("" if one is None else f"{one:.1%}" for one in ratios))
    return table
