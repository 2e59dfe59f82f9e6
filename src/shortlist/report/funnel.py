"""The funnel as a picture: candidates and relevant items after every stage, and what each stage loses.

Drawn twice: stages from left to right, and from top to bottom for narrow screens; the page shows one of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shortlist.report.page import Html, escaped

WIDE, NARROW = "wide", "narrow"
COLUMN, BAR, MARGIN = 124, 64, 92  # pixels: distance of stages, width of a bar, left of the first stage
CANDIDATES, RELEVANT = 56, 150  # heights of the two rows of bars
LETTERS = 15  # of a stage name in a column
LOST = {
    "catalogue": "not in the catalogue",
    "nominator": "not nominated",
    "filter": "removed",
    "scorer": "below the cut",
    "selector": "not selected",
}
GREY = (
    '<span class="wide">Grey: candidates after each stage (log scale).</span>'  # not drawn on narrow screens
)
COLORS = "Blue: relevant items still among the candidates. Orange: relevant items lost, dark at"


@dataclass(frozen=True)
class FunnelStage:
    """One stage: candidates per request after it, relevant items that entered it and survived it."""

    name: str
    kind: str
    candidates: float
    entered: int
    survived: int
    removed: int = 0  # of the lost, those a filter removed

    @property
    def lost(self) -> int:
        return self.entered - self.survived

    @property
    def reason(self) -> str:
        """How the stage loses relevant items."""
        if self.kind == "filter" and self.removed < self.lost:
            return "removed or below the cut"
        return LOST.get(self.kind, "lost")


@dataclass(frozen=True)
class Funnel:
    """The stages of a pipeline; `worst` is the stage to look at first."""

    relevant: int
    stages: tuple[FunnelStage, ...]
    worst: str = ""

    def share(self, count: int) -> float:
        return count / max(self.relevant, 1)


def funnel_figure(funnel: Funnel, caption: str, dark: str) -> Html:
    """Both drawings, a caption, and the meaning of the colours; `dark`: that of the darkest."""
    text = f"{escaped(caption)} {GREY} {COLORS} {escaped(dark)}."
    drawings = _wide(funnel) + _narrow(funnel)
    return Html(f'<figure class="funnel">{drawings}<figcaption>{text}</figcaption></figure>')


def _wide(funnel: Funnel) -> str:
    """Stages from left to right: a bar of candidates above a bar of relevant items."""
    top, base = 26 + CANDIDATES, 26 + CANDIDATES + 44 + RELEVANT
    width, height = MARGIN + COLUMN * (len(funnel.stages) + 1), base + 66
    most = max([stage.candidates for stage in funnel.stages] + [1.0])
    parts = [
        _text(0, top - 22, "candidates", "label"),
        _text(0, top - 8, "per request", "label"),
        _text(0, base - RELEVANT / 2 - 4, "relevant", "label"),
        _text(0, base - RELEVANT / 2 + 10, "items left", "label"),
        *_start(funnel, base),
    ]
    for number, stage in enumerate(funnel.stages):
        parts += _column(funnel, stage, MARGIN + COLUMN * (number + 1), top, base, most)
    return _svg(WIDE, width, height, parts, funnel)


def _start(funnel: Funnel, base: int) -> list[str]:
    """All relevant items, before the first stage."""
    middle = MARGIN + BAR / 2
    return [
        _rect(MARGIN, base - RELEVANT, BAR, RELEVANT, "kept"),
        _text(middle, base - RELEVANT - 8, "100.0%", "value", "middle"),
        _text(middle, base + 18, "relevant", "name", "middle"),
        _text(middle, base + 34, f"{funnel.relevant:,} items", "note", "middle"),
    ]


def _column(funnel: Funnel, stage: FunnelStage, x: float, top: float, base: float, most: float) -> list[str]:
    entered, survived = (RELEVANT * funnel.share(count) for count in (stage.entered, stage.survived))
    tall = CANDIDATES * math.log1p(stage.candidates) / math.log1p(most)
    middle, worst = x + BAR / 2, stage.name == funnel.worst
    flow = f"{x - COLUMN + BAR},{base} {x - COLUMN + BAR},{base - entered:.1f} {x},{base - entered:.1f} {x},{base}"
    parts = [
        _rect(x, top - tall, BAR, tall, "pool"),
        _text(middle, top - tall - 6, _count(stage.candidates), "value", "middle"),
        f'<polygon class="flow" points="{flow}"/>',
        _rect(x, base - survived, BAR, survived, "kept"),
        _rect(x, base - entered, BAR, entered - survived, "worst" if worst else "lost"),
        _text(middle, base - entered - 8, f"{funnel.share(stage.survived):.1%}", "value", "middle"),
        _text(middle, base + 18, _short(stage.name), "name", "middle"),
    ]
    if stage.lost:
        share = f"−{funnel.share(stage.lost):.1%}"
        parts.append(_text(middle, base + 34, share, "worst-text" if worst else "lost-text", "middle"))
        parts.append(_text(middle, base + 49, stage.reason, "note", "middle"))
    else:
        parts.append(_text(middle, base + 34, "loses none", "note", "middle"))
    return parts


def _narrow(funnel: Funnel) -> str:
    """Stages from top to bottom: a line of text above a bar of relevant items."""
    width, row = 340, 62
    parts = [
        _text(0, 14, f"{funnel.relevant:,} relevant items", "name"),
        _rect(0, 22, width, 16, "kept"),
    ]
    for number, stage in enumerate(funnel.stages):
        y, worst = row * (number + 1), stage.name == funnel.worst
        kept, lost = (width * funnel.share(count) for count in (stage.survived, stage.lost))
        loses = f"−{funnel.share(stage.lost):.1%} {stage.reason}" if stage.lost else "loses none"
        kind = "note" if not stage.lost else "worst-text" if worst else "lost-text"
        parts += [
            _text(0, y - 2, _short(stage.name, 20), "name"),
            _text(width, y - 2, f"{_count(stage.candidates)} candidates", "note", "end"),
            _rect(0, y + 5, kept, 16, "kept"),
            _rect(kept, y + 5, lost, 16, "worst" if worst else "lost"),
            _text(0, y + 36, f"{funnel.share(stage.survived):.1%} left", "value"),
            _text(width, y + 36, loses, kind, "end"),
        ]
    return _svg(NARROW, width, row * (len(funnel.stages) + 1) - 14, parts, funnel)


def _svg(kind: str, width: float, height: float, parts: Sequence[str], funnel: Funnel) -> str:
    lost = "; ".join(f"{stage.name}: {stage.lost:,} of {stage.entered:,} lost" for stage in funnel.stages)
    label = escaped(f"Funnel of {funnel.relevant:,} relevant items. {lost}.")
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _short(name: str, letters: int = LETTERS) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"
