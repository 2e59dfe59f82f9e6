"""Settings of a pipeline as points: latency against the metric, with the Pareto frontier."""

from collections.abc import Iterable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shortlist.diagnose.knobs.budget import BudgetReport, SettingReport
from shortlist.report.plots import COLOR, COLORS, DARK, FAR, SETTINGS, canvas, svg

ADVISED, QUIET = COLORS[1], "#9aa1a9"
METRICS = {"recall": "recall@{k}", "precision_at_1": "precision@1"}


def metric_name(budget: BudgetReport) -> str:
    """The metric with its cut-off."""
    return METRICS[budget.metric].format(k=budget.k)


def frontier_drawing(budget: BudgetReport) -> str:
    """All settings, the frontier, marks for the current, the advised and the best one, and the budget."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.4, height=3.8)
        metric = budget.metric
        axes.scatter(*_points(budget.settings, metric), s=16, color=QUIET, label="a setting", zorder=2)
        edge = [budget.setting(label) for label in budget.frontier]
        axes.plot(*_points(edge, metric), "o-", ms=4, lw=1.3, color=COLOR, label="frontier", zorder=3)
        _marks(axes, budget)
        _budget(axes, budget)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.1%}"))
        axes.set_xlabel("latency of single requests, 95th percentile in milliseconds")
        axes.set_ylabel(metric_name(budget))
        axes.margins(y=0.15)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return svg(drawing)


def _points(settings: Iterable[SettingReport], metric: str) -> tuple[list[float], list[float]]:
    listed = list(settings)
    return [one.p95_ms for one in listed], [one.metric(metric).mean or 0.0 for one in listed]


def _marks(axes: Axes, budget: BudgetReport) -> None:
    """Larger marks of different shape and colour; error bars for the difference from the current setting."""
    for label, name, shape, color, size in (
        (budget.current, "current", "D", DARK, 7),
        (budget.best, "best mean that fits", "^", COLORS[3], 8),
        (budget.advised, "advised", "*", ADVISED, 13),
    ):
        if label is None:
            continue
        one = budget.setting(label)
        axes.errorbar(
            [one.p95_ms],
            [one.metric(budget.metric).mean or 0.0],
            yerr=_error_bar(one),
            fmt=shape,
            ms=size,
            capsize=2.5,
            lw=0.9,
            color=color,
            mec="white",
            mew=0.7,
            label=name,
            zorder=5,
        )


def _error_bar(one: SettingReport) -> list[list[float]] | None:
    """How far the interval of the difference from the current setting reaches down and up."""
    mean, low, high = one.gain.mean, one.gain.low, one.gain.high
    if mean is None or low is None or high is None or not one.changes:
        return None
    return [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]


def _budget(axes: Axes, budget: BudgetReport) -> None:
    """The budget as a vertical line; latencies far apart have a logarithmic axis."""
    times, limit = [one.p95_ms for one in budget.settings], budget.budget_ms
    low, high = min(times), max(times)
    near = low / 3 <= limit <= high * 3
    every = [*times, *([limit] if near else [])]
    if min(every) > 0 and max(every) >= FAR * min(every):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    label = f"budget: {limit:g} ms"
    if near:
        axes.axvline(limit, color=DARK, lw=1.1, ls="--", label=label, zorder=1)
    else:  # a line far away would squeeze the points into a corner
        side = "left" if limit < low else "right"
        axes.plot([], [], color=DARK, lw=1.1, ls="--", label=f"{label}, far to the {side}")
