"""Small drawings as SVG text; the same numbers give the same bytes."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

COLOR = "#2f6f8f"
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "shortlist",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def histogram(steps: Sequence[tuple[str, float]], label: str, count_label: str = "count") -> str:
    """Upright bars for steps that follow each other, each (name of the step, count)."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = _canvas(width=7.0, height=2.6)
        axes.bar(range(len(steps)), [count for _, count in steps], width=0.92, color=COLOR)
        axes.set_xticks(range(len(steps)), [name for name, _ in steps], rotation=30, ha="right")
        axes.set_xlabel(label)
        axes.set_ylabel(count_label)
        return _svg(drawing)


def bars(named: Sequence[tuple[str, float]], label: str) -> str:
    """Lying bars for things with names, the first on top, each (name, value)."""
    with mpl.rc_context(SETTINGS):
        drawing, axes = _canvas(width=7.0, height=0.8 + 0.24 * max(len(named), 1))
        axes.barh(range(len(named)), [value for _, value in named], color=COLOR)
        axes.set_yticks(range(len(named)), [_literal(name) for name, _ in named])
        axes.invert_yaxis()
        axes.set_xlabel(label)
        return _svg(drawing)


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    drawing = Figure(figsize=(width, height), layout="tight")
    FigureCanvasSVG(drawing)
    return drawing, drawing.add_subplot()


def _literal(name: str) -> str:
    """A name is no formula: a dollar sign must not start one, and a long name must leave room for its bar."""
    short = name if len(name) <= 32 else name[:31] + "…"
    return short.replace("$", r"\$")


def _svg(drawing: Figure) -> str:
    buffer = io.StringIO()
    # Without a date the same numbers give the same bytes.
    drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
