"""Drawings of a funnel's diagnosis: where wanted items are lost, what mending would bring, for whom, how sure."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from shortlist.report.plots import COLOR, COLORS, DARK, SETTINGS, canvas, literal, svg

WORST, QUIET = COLORS[1], "#c9cdd2"

Told = Mapping[str, Any]


def waterfall(stages: Sequence[Told], wanted: int, worst: str) -> str:
    """Every stage's loss hangs where the one before it left off; what slates have no place for is hatched."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=1.1 + 0.38 * (len(stages) + 1))
        for place, one in enumerate(stages):
            left, room = one["survived"] / wanted, one["no_room"] / wanted
            lost = one["lost"] / wanted
            color = WORST if one["name"] == worst else COLOR
            axes.barh(place, left, color=QUIET, height=0.72, alpha=0.55)
            axes.barh(
                place, room, left=left, color="white", edgecolor=DARK, hatch="////", height=0.72, lw=0.4
            )
            axes.barh(place, lost - room, left=left + room, color=color, height=0.72)
            _whisker(axes, left, place, one["share"], one["entered"] / wanted)
            words = f"−{lost:.1%}" if one["lost"] else "0"
            axes.annotate(
                words,
                (one["entered"] / wanted, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        kept = stages[-1]["survived"] / wanted if stages else 0.0
        axes.barh(len(stages), kept, color=COLORS[2], height=0.72)
        axes.annotate(
            f"{kept:.1%}", (kept, len(stages)), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
        names = [*(literal(one["name"]) for one in stages), "returned"]
        _named(axes, names, "of the wanted items")
        axes.set_xlim(0, 1.1)
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        return svg(drawing)


def _whisker(axes: Axes, left: float, place: int, share: Told, entered: float) -> None:
    """The interval of a loss, at the end where it was measured."""
    if share["low"] is not None:
        reach = [[max(left - (entered - share["high"]), 0.0)], [max((entered - share["low"]) - left, 0.0)]]
        axes.errorbar([left], [place], xerr=reach, fmt="none", capsize=2.5, color=DARK, lw=1)


def gains(stages: Sequence[Told], worst: str) -> str:
    """What a perfect stage would bring as things are, and above it, hollow, if later stages lost nothing of it."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=1.0 + 0.38 * max(len(stages), 1))
        for place, one in enumerate(stages):
            then = one["what_if"]
            gain = (then["oracle"] or {}).get("mean") or 0.0
            axes.barh(place, then["ceiling"], color="none", edgecolor=DARK, lw=0.8, ls="--", height=0.72)
            axes.barh(place, gain, color=WORST if one["name"] == worst else COLOR, height=0.72)
            _interval(axes, then["oracle"], place)
            if then.get("order"):
                _interval(axes, then["order"], place)
                axes.plot([then["order"]["mean"]], [place], "^", ms=6, color=COLORS[3], mec="white", mew=0.5)
            axes.plot([then["same_rates"]], [place], "D", ms=4, color=COLORS[2], mec="white", mew=0.5)
        _named(axes, [literal(one["name"]) for one in stages], "more of the wanted items returned")
        return svg(drawing)


def dots(rows: Sequence[tuple[str, Told]], label: str, everyone: float | None = None) -> str:
    """A value with its interval for every name, and a line for everyone together."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=7.6, height=0.9 + 0.3 * max(len(rows), 1))
        for place, (_, one) in enumerate(rows):
            if one["mean"] is not None:
                axes.plot([one["mean"]], [place], "o", ms=5, color=COLOR)
                _interval(axes, one, place)
        if everyone is not None:
            axes.axvline(everyone, color=WORST, lw=1, ls="--")
        _named(axes, [literal(name) for name, _ in rows], label)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        return svg(drawing)


def reliability(bins: Mapping[str, Sequence[Told]], label: str) -> str:
    """What was said against what came true; on the diagonal both are the same."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = canvas(width=4.4, height=3.6)
        most = max((max(b["confidence"], b["accuracy"]) for one in bins.values() for b in one), default=1.0)
        axes.plot([0, most], [0, most], color=DARK, lw=1, ls=":")
        for number, (name, one) in enumerate(bins.items()):
            color, mark = COLORS[number % len(COLORS)], ("o-", "s--", "^:", "v-.")[number % 4]
            said, true = [b["confidence"] for b in one], [b["accuracy"] for b in one]
            axes.plot(said, true, mark, ms=4, color=color, label=literal(name))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:.4g}" if most < 0.01 else f"{value:.0%}")
            )
        axes.set_xlabel(label)
        axes.set_ylabel("came true")
        axes.legend(frameon=False, fontsize=8)
        return svg(drawing)


def histograms(sides: Mapping[str, Sequence[Told]]) -> str:
    """Candidates by the events of their items, training beside serving, a panel for every ranker."""
    with mpl.rc_context(SETTINGS):
        drawing, whole = canvas(width=7.6, height=0.6 + 2.0 * len(sides))
        whole.remove()
        axes = [drawing.add_subplot(len(sides), 1, row + 1) for row in range(len(sides))]
        for one, (name, bars) in zip(axes, sides.items(), strict=True):
            places = range(len(bars))
            for shift, side, color in ((-0.2, "training", QUIET), (0.2, "serving", COLOR)):
                one.bar(
                    [at + shift for at in places], [bar[side] for bar in bars], 0.4, color=color, label=side
                )
            one.set_xticks(list(places), [bar["events"] for bar in bars], fontsize=7)
            one.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
            one.set_title(literal(name), fontsize=9, loc="left")
        axes[0].legend(frameon=False, fontsize=8)
        axes[-1].set_xlabel("events of the item in the training log")
        return svg(drawing)


def _interval(axes: Axes, one: Told | None, place: int) -> None:
    if one and one["low"] is not None and one["mean"] is not None:
        reach = [[max(one["mean"] - one["low"], 0.0)], [max(one["high"] - one["mean"], 0.0)]]
        axes.errorbar([one["mean"]], [place], xerr=reach, fmt="none", capsize=2.5, color=DARK, lw=1)


def _named(axes: Axes, names: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    axes.set_xlabel(label)
