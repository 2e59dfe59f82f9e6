"""Plots of the levels and beam widths of a tree."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from shortlist.diagnose.tree.diagnosis import BeamWidth, Level
from shortlist.report.plots import COLOR, COLORS, SETTINGS, canvas, svg

GREY = "#c9cdd2"  # levels with no more nodes than the beam

Levels = Sequence[Level]


def survival_plot(levels: Levels, k: int) -> str:
    """Share of the top k whose ancestor is in the beam after each level, and relevant items the beam loses at each."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(7.6, 2.6), layout="tight")
        FigureCanvasSVG(drawing)
        left, right = drawing.subplots(1, 2)
        left.plot(_numbers(levels), [one.top_kept for one in levels], "o-", color=COLOR, ms=4)
        left.set_ylim(0, 1.03)
        left.yaxis.set_major_formatter(PercentFormatter(1, 0))
        left.set_title(f"top {k} of all leaves still in the beam", fontsize=9)
        right.bar(_numbers(levels), [one.beam_lost for one in levels], color=COLORS[1])
        right.set_title("relevant items lost by the beam", fontsize=9)
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in (left, right):
            _by_level(axes, levels)
        return svg(drawing)


def level_plots(levels: Levels, categories: bool) -> str:
    """Max-heap order, labels, negatives and categories, level by level."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(7.6, 5.2), layout="tight")
        FigureCanvasSVG(drawing)
        order, labels, sampling, purity = drawing.subplots(2, 2).flat
        colors = [COLOR if one.decides else GREY for one in levels]
        order.bar(_numbers(levels), [one.violations or 0.0 for one in levels], color=colors)
        order.axhline(0.5, color=COLORS[1], lw=1, ls=":")
        order.set_title("pairs of nodes against the max-heap order", fontsize=9)
        _lines(labels, levels, {"label": "strict", "label_one_step": "one step"})
        labels.set_title("mean rectified label on the path to the next item", fontsize=9)
        _lines(sampling, levels, {"kl_tree": "tree-based", "kl_uniform": "uniform"}, share=False)
        sampling.set_title("negatives: KL from the model in nats", fontsize=9)
        if categories:
            _lines(purity, levels, {"purity": "this tree", "purity_random": "random order"})
            purity.set_title("share of the most common category", fontsize=9)
        else:
            purity.set_axis_off()
        order.set_ylim(0, 1)
        order.yaxis.set_major_formatter(PercentFormatter(1, 0))
        for axes in (order, labels, sampling, *([purity] if categories else [])):
            _by_level(axes, levels)
        return svg(drawing)


def width_plot(widths: Sequence[BeamWidth], beam: int, k: int) -> str:
    """Regret of narrower and wider beams against the nodes they score."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.0, height=2.6)
        axes.plot([one.scored for one in widths], [one.regret for one in widths], "o-", color=COLOR, ms=4)
        for one in widths:
            current = one.beam == beam
            color = COLORS[1] if current else "#5b6675"
            marker = color if current else COLOR
            axes.plot(one.scored, one.regret, "o", color=marker, ms=7 if current else 4)
            axes.annotate(
                f"beam {one.beam:,}", (one.scored, one.regret), (4, 6),
                textcoords="offset points", fontsize=8, color=color,
            )  # fmt: skip
        axes.set_ylim(0, None)
        axes.margins(x=0.12)
        axes.set_xlabel("nodes scored per user")
        axes.set_ylabel(f"top {k} left out")
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        return svg(drawing)


def _lines(axes: Axes, levels: Levels, fields: Mapping[str, str], share: bool = True) -> None:
    for number, (field, name) in enumerate(fields.items()):
        points = [(one.level, getattr(one, field)) for one in levels if getattr(one, field) is not None]
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
    return [one.level for one in levels]
