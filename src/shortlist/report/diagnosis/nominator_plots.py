"""Plots of nominators: what each finds by four definitions, and what it shows against what only it finds."""

from collections.abc import Mapping

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter

from shortlist.diagnose.nominators.report import NominatorValue
from shortlist.metrics.estimate import Estimate
from shortlist.report.plots import COLORS, DARK, SETTINGS, canvas, literal, svg

MEASURES = ("alone", "Shapley", "leave-one-out", "refilled")


def share_bars(values: Mapping[str, NominatorValue]) -> str:
    """Four bars with intervals for every nominator."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=1.2 + 0.75 * len(values))
        for kind, measure in enumerate(MEASURES):
            for place, value in enumerate(values.values()):
                estimate = _of(value, measure)
                if estimate is None or estimate.mean is None:
                    continue
                at = place + 0.2 * (kind - 1.5)
                label = measure if place == 0 else None
                axes.barh(at, estimate.mean, height=0.18, color=COLORS[kind], label=label)
                if estimate.low is not None and estimate.high is not None:
                    reach = [
                        [max(estimate.mean - estimate.low, 0.0)],
                        [max(estimate.high - estimate.mean, 0.0)],
                    ]
                    axes.errorbar(
                        [estimate.mean], [at], xerr=reach, fmt="none", capsize=2, color=DARK, lw=0.8
                    )
        axes.axvline(0.0, color=DARK, lw=0.8)
        axes.set_yticks(range(len(values)), [literal(name) for name in values])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))
        axes.set_xlabel("points of pool recall")
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return svg(drawing)


def _of(value: NominatorValue, measure: str) -> Estimate | None:
    found = value.found
    return {
        "alone": found.solo,
        "Shapley": found.shapley,
        "leave-one-out": found.leave_one_out,
        "refilled": found.refilled,
    }[measure]


def reveal_scatter(values: Mapping[str, NominatorValue]) -> str:
    """The share of slates that each nominator nominated against the recall that only it brings."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=5.6, height=3.4)
        for number, (name, value) in enumerate(values.items()):
            x, y = value.found.leave_one_out, value.reveal.share
            if x.mean is None or y.mean is None:
                continue
            axes.errorbar(
                [x.mean],
                [y.mean],
                xerr=_reach(x),
                yerr=_reach(y),
                fmt=("o", "s", "^", "v", "D")[number % 5],
                ms=6,
                capsize=2,
                lw=0.9,
                color=COLORS[number % len(COLORS)],
                label=literal(name),
            )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("points of pool recall that nobody else brings")
        axes.set_ylabel("items of slates it nominated")
        handles, _ = axes.get_legend_handles_labels()
        if handles:
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return svg(drawing)


def _reach(value: Estimate) -> list[list[float]] | None:
    """How far an interval reaches down and up."""
    if value.mean is None or value.low is None or value.high is None:
        return None
    return [[max(value.mean - value.low, 0.0)], [max(value.high - value.mean, 0.0)]]
