"""Plots of a diagnosis: losses by stage, gains of perfect stages, segments, calibration, popularity of candidates."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from shortlist.diagnose.calibration import Bin
from shortlist.diagnose.diagnosis import StageReport
from shortlist.diagnose.shift import PopularityBar
from shortlist.metrics.estimate import Estimate
from shortlist.report.plots import COLOR, COLORS, DARK, SETTINGS, canvas, literal, svg

WORST, QUIET = COLORS[1], "#c9cdd2"


def waterfall(stages: Sequence[StageReport], relevant: int, worst: str) -> str:
    """The relevant items lost at every stage, from the first to the slate; unavoidable losses are hatched."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=1.1 + 0.38 * (len(stages) + 1))
        for place, stage in enumerate(stages):
            _loss(axes, place, stage, relevant, WORST if stage.name == worst else COLOR)
        kept = stages[-1].survived / relevant if stages else 0.0
        axes.barh(len(stages), kept, color=COLORS[2], height=0.72)
        _annotate(axes, f"{kept:.1%}", kept, len(stages))
        _named(axes, [*(literal(stage.name) for stage in stages), "returned"], "of all relevant items")
        axes.set_xlim(0, 1.1)
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        return svg(drawing)


def _loss(axes: Axes, place: int, stage: StageReport, relevant: int, color: str) -> None:
    left, entered = stage.survived / relevant, stage.entered / relevant
    unavoidable, avoidable = stage.unavoidable / relevant, stage.avoidable / relevant
    axes.barh(place, left, color=QUIET, height=0.72, alpha=0.55)
    axes.barh(place, unavoidable, left=left, color="white", edgecolor=DARK, hatch="////", height=0.72, lw=0.4)
    axes.barh(place, avoidable, left=left + unavoidable, color=color, height=0.72)
    share = stage.share
    if share.low is not None and share.high is not None:
        reach = [[max(left - (entered - share.high), 0.0)], [max((entered - share.low) - left, 0.0)]]
        axes.errorbar([left], [place], xerr=reach, fmt="none", capsize=2.5, color=DARK, lw=1)
    _annotate(axes, f"−{stage.lost / relevant:.1%}" if stage.lost else "0", entered, place)


def gains(stages: Sequence[StageReport], worst: str) -> str:
    """The gain of a perfect stage, and as a dashed bar the gain if later stages lost nothing of it."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=1.0 + 0.38 * max(len(stages), 1))
        for place, stage in enumerate(stages):
            then = stage.what_if
            gain = (then.oracle.mean if then.oracle else None) or 0.0
            axes.barh(place, then.ceiling or 0.0, color="none", edgecolor=DARK, lw=0.8, ls="--", height=0.72)
            axes.barh(place, gain, color=WORST if stage.name == worst else COLOR, height=0.72)
            _interval(axes, then.oracle, place)
            if then.order is not None and then.order.mean is not None:
                _interval(axes, then.order, place)
                axes.plot([then.order.mean], [place], "^", ms=6, color=COLORS[3], mec="white", mew=0.5)
            axes.plot([then.same_rates or 0.0], [place], "D", ms=4, color=COLORS[2], mec="white", mew=0.5)
        _named(axes, [literal(stage.name) for stage in stages], "gain of recall")
        return svg(drawing)


def dots(rows: Sequence[tuple[str, Estimate]], label: str, overall: float | None = None) -> str:
    """A value with its interval for every name, and a line for all users together."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=0.9 + 0.3 * max(len(rows), 1))
        for place, (_, value) in enumerate(rows):
            if value.mean is not None:
                axes.plot([value.mean], [place], "o", ms=5, color=COLOR)
                _interval(axes, value, place)
        if overall is not None:
            axes.axvline(overall, color=WORST, lw=1, ls="--")
        _named(axes, [literal(name) for name, _ in rows], label)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        return svg(drawing)


def reliability(bins: Mapping[str, Sequence[Bin]], label: str) -> str:
    """Accuracy against confidence; on the diagonal both are equal."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=4.4, height=3.6)
        most = max(
            (max(part.confidence, part.accuracy) for own in bins.values() for part in own), default=1.0
        )
        axes.plot([0, most], [0, most], color=DARK, lw=1, ls=":")
        for number, (name, own) in enumerate(bins.items()):
            color, mark = COLORS[number % len(COLORS)], ("o-", "s--", "^:", "v-.")[number % 4]
            axes.plot(
                [part.confidence for part in own],
                [part.accuracy for part in own],
                mark,
                ms=4,
                color=color,
                label=literal(name),
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:.4g}" if most < 0.01 else f"{value:.0%}")
            )
        axes.set_xlabel(label)
        axes.set_ylabel("relevant")
        axes.legend(frameon=False, fontsize=8)
        return svg(drawing)


def histograms(sides: Mapping[str, Sequence[PopularityBar]]) -> str:
    """Candidates by the training events of their items, training beside serving, one plot per ranker."""
    with mpl.rc_context(SETTINGS):
        drawing, whole = canvas(width=7.6, height=0.6 + 2.0 * len(sides))
        whole.remove()
        plots = [drawing.add_subplot(len(sides), 1, row + 1) for row in range(len(sides))]
        for axes, (name, bars) in zip(plots, sides.items(), strict=True):
            places = range(len(bars))
            axes.bar(
                [at - 0.2 for at in places],
                [bar.training for bar in bars],
                0.4,
                color=QUIET,
                label="training",
            )
            axes.bar(
                [at + 0.2 for at in places], [bar.serving for bar in bars], 0.4, color=COLOR, label="serving"
            )
            axes.set_xticks(list(places), [bar.events for bar in bars], fontsize=7)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
            axes.set_title(literal(name), fontsize=9, loc="left")
        plots[0].legend(frameon=False, fontsize=8)
        plots[-1].set_xlabel("training events of the item")
        return svg(drawing)


def _annotate(axes: Axes, text: str, x: float, place: int) -> None:
    axes.annotate(text, (x, place), (4, 0), textcoords="offset points", va="center", fontsize=8)


def _interval(axes: Axes, value: Estimate | None, place: int) -> None:
    if value is not None and value.low is not None and value.high is not None and value.mean is not None:
        reach = [[max(value.mean - value.low, 0.0)], [max(value.high - value.mean, 0.0)]]
        axes.errorbar([value.mean], [place], xerr=reach, fmt="none", capsize=2.5, color=DARK, lw=1)


def _named(axes: Axes, names: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    axes.set_xlabel(label)
