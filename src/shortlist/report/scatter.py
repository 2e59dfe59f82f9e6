"""Scatter plot of quality against cost, with labels that do not overlap."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shortlist.report.plots import COLORS, DARK, SETTINGS, canvas, literal, svg

Point = tuple[float, float, float, float]  # cost, quality, and its interval
Box = tuple[float, float, float, float]  # left, low, right, high, in dots

LETTER, LINE, GAP = (
    5.0,
    10.0,
    7.0,
)  # width of a letter, height of a line, distance of a label from its point, in dots
STYLES = ("--", ":", "-.")


def scatter(points: Mapping[str, Point], levels: Mapping[str, float], labels: tuple[str, str]) -> str:
    """A point with its interval for every name, cost on a logarithmic axis, and a horizontal line for every level."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=8.0, height=4.0)
        for number, (cost, quality, low, high) in enumerate(points.values()):
            error = [[quality - low], [high - quality]]
            color = COLORS[number % len(COLORS)]
            axes.errorbar([cost], [quality], yerr=error, fmt="o", ms=6, capsize=3, color=color)
        for number, (name, level) in enumerate(levels.items()):
            style = STYLES[number % len(STYLES)]
            axes.axhline(level, color=DARK, lw=0.9, ls=style, alpha=0.6, label=literal(name))
        _axes(axes, points, labels)
        if levels:
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        drawing.draw_without_rendering()  # computes the positions of the points
        _label(axes, points)
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


def _label(axes: Axes, points: Mapping[str, Point]) -> None:
    """Write the names where they overlap neither points nor each other."""
    scale = 72.0 / axes.figure.dpi
    at = [axes.transData.transform((cost, quality)) * scale for cost, quality, _, _ in points.values()]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    for (name, (cost, quality, _, _)), (x, y) in zip(points.items(), at, strict=True):
        text = literal(name)
        dx, dy = placed(x, y, LETTER * len(text), taken)
        taken.append(_box(x + dx, y + dy, LETTER * len(text)))
        axes.annotate(text, (cost, quality), (dx, dy), textcoords="offset points", fontsize=8, va="center")


def placed(x: float, y: float, width: float, taken: Sequence[Box]) -> tuple[float, float]:
    """The offset of a label of this width from its point: right, left, then higher or lower; the first free one."""
    tries = [
        (side, step * LINE) for step in (0, 0.8, -0.8, 1.6, -1.6, 2.6, -2.6) for side in (GAP, -GAP - width)
    ]
    free = (
        one for one in tries if not any(_overlap(_box(x + one[0], y + one[1], width), box) for box in taken)
    )
    return next(free, tries[0])


def _box(left: float, middle: float, width: float) -> Box:
    return left, middle - LINE / 2, left + width, middle + LINE / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
