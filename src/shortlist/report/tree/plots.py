"""Numbers of a tree's levels as small plots."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from shortlist.report.plots import COLOR, COLORS, SETTINGS, canvas, svg

QUIET = "#c9cdd2"  # levels that decide nothing

Levels = Sequence[Mapping[str, Any]]


def reach(levels: Levels, k: int) -> str:
    """What of the best of all leaves is still in reach after each level, and held-out items lost at each."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(7.6, 2.6), layout="tight")
        FigureCanvasSVG(drawing)
        left, right = drawing.subplots(1, 2)
        left.plot(_numbers(levels), [one["top_kept"] for one in levels], "o-", color=COLOR, ms=4)
        left.set_ylim(0, 1.03)
        left.yaxis.set_major_formatter(PercentFormatter(1, 0))
        left.set_title(f"best {k} of all leaves still in reach", fontsize=9)
        right.bar(_numbers(levels), [one["search_lost"] for one in levels], color=COLORS[1])
        right.set_title("held-out items that search lost", fontsize=9)
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in (left, right):
            _by_level(axes, levels)
        return svg(drawing)


def panels(levels: Levels, categories: bool) -> str:
    """Order, labels, sampling and categories, level by level."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(7.6, 5.2), layout="tight")
        FigureCanvasSVG(drawing)
        order, labels, sampling, purity = drawing.subplots(2, 2).flat
        shades = [COLOR if one["decides"] else QUIET for one in levels]
        order.bar(_numbers(levels), [one["violations"] or 0.0 for one in levels], color=shades)
        order.axhline(0.5, color=COLORS[1], lw=1, ls=":")
        order.set_title("pairs of nodes in the wrong order", fontsize=9)
        _lines(labels, levels, {"label": "best item below", "label_one_step": "best child"})
        labels.set_title("mean label on the way to the next item", fontsize=9)
        _lines(sampling, levels, {"kl_tree": "walking down the tree", "kl_uniform": "uniform"}, share=False)
        sampling.set_title("negatives: distance from the model (KL, nats)", fontsize=9)
        if categories:
            _lines(purity, levels, {"purity": "this tree", "purity_chance": "a random order"})
            purity.set_title("share of the most common category", fontsize=9)
        else:
            purity.set_axis_off()
        order.set_ylim(0, 1)
        order.yaxis.set_major_formatter(PercentFormatter(1, 0))
        for axes in (order, labels, sampling, *([purity] if categories else [])):
            _by_level(axes, levels)
        return svg(drawing)


def widths(told: Sequence[Mapping[str, Any]], beam: int, k: int) -> str:
    """What wider and narrower beams leave out, against the nodes they score."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.0, height=2.6)
        axes.plot([one["scored"] for one in told], [one["regret"] for one in told], "o-", color=COLOR, ms=4)
        for one in told:
            here = one["beam"] == beam
            color = COLORS[1] if here else "#5b6675"
            axes.plot(one["scored"], one["regret"], "o", color=color if here else COLOR, ms=7 if here else 4)
            axes.annotate(
                f"beam {one['beam']:,}", (one["scored"], one["regret"]), (4, 6),
                textcoords="offset points", fontsize=8, color=color,
            )  # fmt: skip
        axes.set_ylim(0, None)
        axes.margins(x=0.12)
        axes.set_xlabel("nodes scored for a user")
        axes.set_ylabel(f"of the best {k} left out")
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        return svg(drawing)


def _lines(axes: Axes, levels: Levels, named: Mapping[str, str], share: bool = True) -> None:
    for number, (key, name) in enumerate(named.items()):
        points = [(one["level"], one[key]) for one in levels if one[key] is not None]
        axes.plot(
            [x for x, _ in points], [y for _, y in points], "o-", color=COLORS[number], ms=3, label=name
        )
    axes.set_ylim(0, 1.03 if share else None)
    if share:
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.legend(frameon=False, fontsize=8)


def _by_level(axes: Axes, levels: Levels) -> None:
    axes.set_xlabel("level")
    axes.set_xlim(0.4, len(levels) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _numbers(levels: Levels) -> list[int]:
    return [one["level"] for one in levels]
