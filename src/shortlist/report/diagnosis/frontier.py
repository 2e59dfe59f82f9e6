"""Settings of a pipeline as points: what each costs in time, and what it is worth."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shortlist.diagnose.findings.text import Told
from shortlist.report.plots import COLOR, COLORS, DARK, FAR, SETTINGS, canvas, svg

ADVISED, QUIET = COLORS[1], "#9aa1a9"
WORTH = {"recall": "wanted items returned", "precision_at_1": "first items that are wanted"}


def frontier_drawing(told: Told) -> str:
    """All settings, a line along the frontier, marks for the present, the advised and the best, and the budget."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.4, height=3.8)
        settings = {one["label"]: one for one in told["settings"]}
        metric = told["metric"]
        axes.scatter(*_places(settings.values(), metric), s=16, color=QUIET, label="a setting", zorder=2)
        edge = [settings[name] for name in told["frontier"]]
        axes.plot(*_places(edge, metric), "o-", ms=4, lw=1.3, color=COLOR, label="not beaten", zorder=3)
        _marked(axes, settings, told)
        _budget(axes, told)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.1%}"))
        axes.set_xlabel("milliseconds that 95 % of single requests stay within")
        axes.set_ylabel(WORTH[metric])
        axes.margins(y=0.15)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return svg(drawing)


def _places(settings: Any, metric: str) -> tuple[list[float], list[float]]:
    found = list(settings)
    return [one["p95_ms"] for one in found], [one[metric]["mean"] or 0.0 for one in found]


def _marked(axes: Axes, settings: Mapping[str, Told], told: Told) -> None:
    """Larger marks of different shape as well as colour; whiskers for what is above the present setting."""
    for which, name, shape, color, size in (
        ("present", "as it is", "D", DARK, 7),
        ("best", "best mean that fits", "^", COLORS[3], 8),
        ("advised", "advised", "*", ADVISED, 13),
    ):
        if told[which] is None:
            continue
        one = settings[told[which]]
        place, worth = one["p95_ms"], one[told["metric"]]["mean"] or 0.0
        axes.errorbar(
            [place],
            [worth],
            yerr=_reach(one),
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


def _reach(one: Told) -> list[list[float]] | None:
    """How far the interval of the difference from the present setting goes down and up."""
    gain = one["gain"]
    if gain["low"] is None or not one["changes"]:
        return None
    return [[max(gain["mean"] - gain["low"], 0.0)], [max(gain["high"] - gain["mean"], 0.0)]]


def _budget(axes: Axes, told: Told) -> None:
    """The budget as an upright line; times far apart stand on a logarithmic axis."""
    times = [one["p95_ms"] for one in told["settings"]]
    low, high = min(times), max(times)
    budget = told["budget_ms"]
    near = low / 3 <= budget <= high * 3
    every = [*times, *([budget] if near else [])]
    if min(every) > 0 and max(every) >= FAR * min(every):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    said = f"budget: {budget:g} ms"
    if near:
        axes.axvline(budget, color=DARK, lw=1.1, ls="--", label=said, zorder=1)
    else:  # a line far away would squeeze the points into a corner
        side = "left" if budget < low else "right"
        axes.plot([], [], color=DARK, lw=1.1, ls="--", label=f"{said}, far to the {side}")
