"""Small plots as SVG text; the same numbers give the same bytes."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from shortlist.errors import visible

COLOR = "#2f6f8f"
COLORS = (COLOR, "#c2703d", "#6a8f3a", "#7a5c99", "#b0455a", "#8a7a3a", "#3a8f86", "#8f3a7a", "#555555")
DARK = "#333333"
FEW_LINES = 5  # with more, the legend is beside the plot
FEW_PLACES, FAR = (
    8,
    8,
)  # up to FEW_PLACES places each have a tick; from the ratio FAR of last to first the axis is logarithmic
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "shortlist",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def histogram(steps: Sequence[tuple[str, float]], label: str, count_label: str = "count") -> str:
    """Vertical bars for ordered bins, each (name of the bin, count)."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.0, height=2.6)
        axes.bar(range(len(steps)), [count for _, count in steps], width=0.92, color=COLOR)
        axes.set_xticks(range(len(steps)), [literal(name) for name, _ in steps], rotation=30, ha="right")
        axes.set_xlabel(label)
        axes.set_ylabel(count_label)
        return svg(drawing)


def bars(named: Sequence[tuple[str, float]], label: str, spread: Sequence[float] | None = None) -> str:
    """Horizontal bars, the first on top, each (name, value), with optional error bars."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.0, height=0.8 + 0.24 * max(len(named), 1))
        values = [value for _, value in named]
        axes.barh(range(len(named)), values, color=COLOR)
        if spread is not None and any(spread):
            axes.errorbar(values, range(len(named)), xerr=spread, fmt="none", capsize=2, color=DARK)
        axes.set_yticks(range(len(named)), [literal(name) for name, _ in named])
        axes.invert_yaxis()
        axes.set_xlabel(label)
        return svg(drawing)


def lines(
    series: Mapping[str, Sequence[tuple[float, float, float]]], labels: tuple[str, str], path: bool = False
) -> str:
    """A line for each name through points (x, y, error), with error bars.

    Names that are equal up to a comma or " on " share a colour. A few x values that are far apart get a logarithmic
    axis. A `path` joins points in the given order instead of by x, on a logarithmic axis.
    """
    with mpl.rc_context(SETTINGS):
        many = len(series) > FEW_LINES
        drawing, axes = canvas(width=9.0 if many else 7.0, height=3.4)
        families: dict[str, int] = {}
        for name, points in series.items():
            family = name.partition(",")[0].partition(" on ")[0]
            members = families[family] = families.get(family, -1) + 1
            place, value, spread = zip(*(points if path else sorted(points)), strict=True)
            turn, color = divmod(list(families).index(family), len(COLORS))
            style = ("o-", "s--", "^:", "v-.")[(members + turn) % 4]
            whisker = spread if any(spread) else None
            axes.errorbar(
                place,
                value,
                yerr=whisker,
                fmt=style,
                ms=4,
                capsize=2,
                color=COLORS[color],
                label=literal(name),
            )
        if path:
            places = [place for points in series.values() for place, _, _ in points]
            near = max(places) < FAR * min(places)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(
                LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0) if near else (1.0, 2.0, 5.0))
            )
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            _spaced(axes, sorted({place for points in series.values() for place, _, _ in points}))
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if many else {}
        axes.legend(frameon=False, fontsize=8, **beside)
        return svg(drawing)


def panels(
    groups: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]],
    labels: tuple[str, str],
    columns: int = 2,
) -> str:
    """A plot for each group with a line for each name through points (x, y, error); equal names have equal lines.

    Errors are a band around the line; a line of one point is a marker.
    """
    columns = max(min(columns, len(groups)), 1)
    names = list(dict.fromkeys(name for series in groups.values() for name in series))
    rows = -(-len(groups) // columns)
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(9.0, 0.8 + 2.5 * rows), layout="constrained")
        FigureCanvasSVG(drawing)
        every = list(drawing.subplots(rows, columns, squeeze=False).flatten())
        for axes, (group, series) in zip(every, groups.items(), strict=False):
            for name, points in series.items():
                place, value, error = zip(*sorted(points), strict=True)
                at = names.index(name)
                style, color = ("-", "--", ":")[at // len(COLORS) % 3], COLORS[at % len(COLORS)]
                marker = ("o", "s", "^")[at // len(COLORS) % 3] if len(place) == 1 else ""
                axes.plot(place, value, marker + style, color=color, ms=5, label=literal(name))
                if any(error):
                    low, high = zip(*((v - e, v + e) for v, e in zip(value, error, strict=True)), strict=True)
                    axes.fill_between(place, low, high, color=color, alpha=0.15, linewidth=0)
            _spaced(axes, sorted({place for points in series.values() for place, _, _ in points}))
            axes.set_title(literal(group), fontsize=9)
            axes.set_xlabel(labels[0])
            axes.set_ylabel(labels[1])
        for axes in every[len(groups) :]:
            axes.set_axis_off()
        handles, shown = _legend(every[: len(groups)])
        drawing.legend(handles, shown, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
        return svg(drawing)


def _legend(every: Sequence[Axes]) -> tuple[list[Any], list[str]]:
    """The first line of every name."""
    found: dict[str, Any] = {}
    for axes in every:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return list(found.values()), list(found)


def _spaced(axes: Axes, places: Sequence[float]) -> None:
    """Ticks at the points when there are few, on a logarithmic axis when they are far apart."""
    if not 1 < len(places) <= FEW_PLACES:
        return
    first = places[0] or places[1]  # the axis is linear from 0 to the next place
    if first > 0 and places[-1] >= FAR * first:
        if places[0]:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=first)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(places, [f"{place:,.6g}" for place in places])


def whiskers(
    groups: Sequence[str], series: Mapping[str, Sequence[tuple[float, float, float]]], label: str
) -> str:
    """Points with error bars, side by side in each group; a point is (value, low, high)."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.0, height=2.8)
        for number, (name, points) in enumerate(series.items()):
            at = [place + 0.16 * (number - (len(series) - 1) / 2) for place in range(len(groups))]
            middle = [value for value, _, _ in points]
            reach = [[v - low for v, low, _ in points], [high - v for v, _, high in points]]
            color = COLORS[number % len(COLORS)]
            axes.errorbar(at, middle, yerr=reach, fmt="o", capsize=3, color=color, label=literal(name))
        axes.set_xticks(range(len(groups)), [literal(name) for name in groups])
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.set_ylabel(label)
        axes.legend(frameon=False)
        return svg(drawing)


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    drawing = Figure(figsize=(width, height), layout="tight")
    FigureCanvasSVG(drawing)
    return drawing, drawing.add_subplot()


def literal(name: str) -> str:
    """A name as plain text: no dollar sign starts a formula, controls are escapes, long names are shortened."""
    name = visible(name)
    short = name if len(name) <= 32 else name[:31] + "…"
    return short.replace("$", r"\$")


def svg(drawing: Figure) -> str:
    buffer = io.StringIO()
    # Without a date the same numbers give the same bytes.
    drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
