"""Points with names: what a thing costs and what it is worth."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shortlist.report.plots import COLORS, DARK, SETTINGS, canvas, literal, svg

Point = tuple[float, float, float, float]  # cost, worth, and its interval
Box = tuple[float, float, float, float]  # left, low, right, high, in dots

LETTER, LINE, GAP = 5.0, 10.0, 7.0  # the size of a letter and its distance from a point, in dots
STYLES = ("--", ":", "-.")


def scatter(points: Mapping[str, Point], levels: Mapping[str, float], labels: tuple[str, str]) -> str:
    """A point with its interval for every name, cost on a logarithmic axis, and a line across for every level."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=8.0, height=4.0)
        for number, (cost, worth, low, high) in enumerate(points.values()):
            reach = [[worth - low], [high - worth]]
            color = COLORS[number % len(COLORS)]
            axes.errorbar([cost], [worth], yerr=reach, fmt="o", ms=6, capsize=3, color=color)
        for number, (name, level) in enumerate(levels.items()):
            style = STYLES[number % len(STYLES)]
            axes.axhline(level, color=DARK, lw=0.9, ls=style, alpha=0.6, label=literal(name))
        _axes(axes, points, labels)
        if levels:
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        drawing.draw_without_rendering()  # settles where points lie
        _name(axes, points)
        return svg(drawing)


def _axes(axes: Axes, points: Mapping[str, Point], labels: tuple[str, str]) -> None:
    axes.set_xscale("log")
    costs = [cost for cost, _, _, _ in points.values()]
    axes.set_xlim(min(costs) / 2, max(costs) * 4)  # room for names
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])


def _name(axes: Axes, points: Mapping[str, Point]) -> None:
    """Write the names where they hide neither points nor each other."""
    scale = 72.0 / axes.figure.dpi
    at = [axes.transData.transform((cost, worth)) * scale for cost, worth, _, _ in points.values()]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    for (name, (cost, worth, _, _)), (x, y) in zip(points.items(), at, strict=True):
        text = literal(name)
        dx, dy = placed(x, y, LETTER * len(text), taken)
        taken.append(_box(x + dx, y + dy, LETTER * len(text)))
        axes.annotate(text, (cost, worth), (dx, dy), textcoords="offset points", fontsize=8, va="center")


def placed(x: float, y: float, width: float, taken: Sequence[Box]) -> tuple[float, float]:
    """Where a name of this width begins, from its point: right, left, then higher or lower; the first that is free."""
    tries = [
        (side, step * LINE) for step in (0, 0.8, -0.8, 1.6, -1.6, 2.6, -2.6) for side in (GAP, -GAP - width)
    ]
    free = (one for one in tries if not any(_meet(_box(x + one[0], y + one[1], width), box) for box in taken))
    return next(free, tries[0])


def _box(left: float, middle: float, width: float) -> Box:
    return left, middle - LINE / 2, left + width, middle + LINE / 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
