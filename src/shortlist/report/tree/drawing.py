"""A tree drawn by hand as SVG: its top levels, and one user's beam through all of it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH = 960
INK, SOFT, LINE, STRIP = "#1c2430", "#5b6675", "#aab3bd", "#eceeea"
FOUND, LOST = "#2e8b57", "#c0392b"
SHADES = ("#d3e5ee", "#a9cddf", "#74aeca", "#3f87ab", "#1d5f82")  # of kept nodes, the best darkest
BOX, ROW = 46, 92  # height of a box, distance between rows of boxes
LEFT, TALL, STEP = 168, 18, 30  # margin, height of a strip, distance between strips
LETTER = 6.3  # width of a letter at 11 px


def sketch(told: Mapping[str, Any]) -> str:
    """The top levels as boxes: the most common category of each node, its share, and how many items are below."""
    boxes = told["sketch"]
    deepest = max(box["level"] for box in boxes)
    places = _places(boxes, deepest, told["branch"])
    wide = min(150.0, WIDTH / max(sum(box["level"] == deepest for box in boxes), 1) - 8)
    lines = [
        _branch(
            places[box["level"] - 1, box["node"] // told["branch"]], places[box["level"], box["node"]], box
        )
        for box in boxes
        if box["level"] > 0
    ]
    drawn = [_box(box, places[box["level"], box["node"]], wide) for box in boxes]
    more = _more(boxes, deepest, told)
    height = deepest * ROW + BOX + 8 + (20 if more else 0)
    return _svg(height, [*lines, *drawn, *more])


def beam(told: Mapping[str, Any]) -> str:
    """Every level as a strip of all its nodes, those in the beam coloured, with the ways of held-out items."""
    walk = told["walk"]
    top = 44
    scale = (WIDTH - LEFT - 10) / walk["leaves"]
    strips = [
        _strip(step, top + number * STEP, scale, walk["leaves"]) for number, step in enumerate(walk["steps"])
    ]
    names = _names(told, scale)
    trails = [_trail(trail, top, scale) for trail in walk["trails"]]
    bottom = top + len(walk["steps"]) * STEP
    return _svg(bottom + 30, [*names, *strips, *trails, _legend(bottom + 16)])


def _places(boxes: Sequence[Mapping[str, Any]], deepest: int, branch: int) -> dict[tuple[int, int], float]:
    """The middle of every box: the lowest side by side, the others above the middle of their children."""
    lowest = [box["node"] for box in boxes if box["level"] == deepest]
    found = {(deepest, node): (at + 0.5) * WIDTH / len(lowest) for at, node in enumerate(lowest)}
    for level in range(deepest - 1, -1, -1):
        for node in (box["node"] for box in boxes if box["level"] == level):
            below = [x for (j, i), x in found.items() if j == level + 1 and i // branch == node]
            found[level, node] = sum(below) / len(below) if below else WIDTH / 2
    return found


def _box(box: Mapping[str, Any], x: float, wide: float) -> str:
    y = box["level"] * ROW + 2
    wide = max(wide, 108.0) if box["level"] == 0 else wide
    name = "all items" if box["level"] == 0 else _short(box["category"] or "no category", wide)
    facts = f"{box['items']:,}" if box["level"] == 0 else f"{box['share']:.0%} of {box['items']:,}"
    shade = SHADES[min(int(box["share"] * len(SHADES)), len(SHADES) - 1)] if box["level"] else "#ffffff"
    ink = "#ffffff" if shade in SHADES[3:] else INK
    title = f"{box['category'] or 'no category'}: {box['share']:.1%} of {box['items']:,} items"
    return (
        f'<g><title>{escape(title)}</title><rect x="{x - wide / 2:.1f}" y="{y}" width="{wide:.1f}" height="{BOX}" '
        f'rx="6" fill="{shade}" stroke="{LINE}"/>'
        + _text(x, y + 19, name, ink, "middle")
        + _text(x, y + 35, facts, ink, "middle")
        + "</g>"
    )


def _branch(parent: float, x: float, box: Mapping[str, Any]) -> str:
    start, end = (box["level"] - 1) * ROW + BOX + 2, box["level"] * ROW + 2
    half = (start + end) / 2
    path = f"M{parent:.1f} {start} C{parent:.1f} {half} {x:.1f} {half} {x:.1f} {end}"
    return f'<path d="{path}" fill="none" stroke="{LINE}"/>'


def _more(boxes: Sequence[Mapping[str, Any]], deepest: int, told: Mapping[str, Any]) -> list[str]:
    """How many nodes of the lowest row there was no room for."""
    shown = sum(box["level"] == deepest for box in boxes)
    size = next((one["nodes"] for one in told["levels"] if one["level"] == deepest), shown)
    if size <= shown:
        return []
    return [_text(WIDTH, deepest * ROW + BOX + 20, f"and {size - shown:,} more", SOFT, "end")]


def _strip(step: Mapping[str, Any], y: float, scale: float, leaves: int) -> str:
    """All nodes of a level in grey, those kept coloured by their place among them."""
    ranked = sorted(range(len(step["nodes"])), key=lambda at: -step["scores"][at])
    shade = {at: SHADES[-1 - place * len(SHADES) // max(len(ranked), 1)] for place, at in enumerate(ranked)}
    kept = "".join(
        _node(node, step["width"], y, scale, leaves, shade[at]) for at, node in enumerate(step["nodes"])
    )
    told = f"{len(step['nodes']):,} of {step['size']:,} kept"
    return (
        _text(0, y + 13, f"level {step['level']}", INK)
        + _text(LEFT - 12, y + 13, told, SOFT, "end")
        + f'<rect x="{LEFT}" y="{y}" width="{leaves * scale:.1f}" height="{TALL}" fill="{STRIP}"/>{kept}'
    )


def _node(node: int, width: int, y: float, scale: float, leaves: int, shade: str) -> str:
    left = LEFT + node * width * scale
    wide = (min((node + 1) * width, leaves) - node * width) * scale
    gap = 0.8 if wide > 4 else 0.0
    return f'<rect x="{left:.1f}" y="{y}" width="{max(wide - gap, 1.2):.1f}" height="{TALL}" fill="{shade}"/>'


def _names(told: Mapping[str, Any], scale: float) -> list[str]:
    """What the leaves are about, from left to right, as the sketch names them."""
    deepest = max(box["level"] for box in told["sketch"])
    # Leaves under a full node of the sketch's lowest row; free leaves count.
    width = told["branch"] ** (told["height"] - deepest)
    found, end = [], -1.0
    for box in (one for one in told["sketch"] if one["level"] == deepest and one["category"]):
        first, last = box["node"] * width, min((box["node"] + 1) * width, told["walk"]["leaves"])
        room = (last - first) * scale - 6
        x = LEFT + first * scale
        if room > 40 and x > end:
            found.append(f'<path d="M{x:.1f} 30 v-6 h{room:.1f} v6" fill="none" stroke="{LINE}"/>')
            found.append(_text(x + room / 2, 18, _short(box["category"], room), SOFT, "middle"))
            end = x + room
    return found


def _trail(trail: Mapping[str, Any], top: float, scale: float) -> str:
    x = LEFT + (trail["leaf"] + 0.5) * scale
    rows = [(top + number * STEP + TALL / 2, one["kept"]) for number, one in enumerate(trail["passings"])]
    alive = sum(kept for _, kept in rows)
    split = rows[min(alive, len(rows) - 1)][0]
    parts = [
        f'<path d="M{x:.1f} 34 V{split:.1f}" stroke="{FOUND}" stroke-width="1.5"/>',
        f'<path d="M{x:.1f} {split:.1f} V{rows[-1][0]:.1f}" stroke="{LOST}" stroke-dasharray="3 3"/>',
        *(_mark(x, y, number - alive) for number, (y, _) in enumerate(rows)),
    ]
    return f"<g><title>{escape(str(trail['title']))}</title>{''.join(parts)}</g>"


def _mark(x: float, y: float, after: int) -> str:
    """A dot while the item is in reach, a cross where it is lost, a ring below."""
    if after == 0:
        cross = f"M{x - 5:.1f} {y - 5:.1f} l10 10 m0 -10 l-10 10"
        strokes = (("#ffffff", 6), (LOST, 3))
        return "".join(f'<path d="{cross}" stroke="{ink}" stroke-width="{wide}"/>' for ink, wide in strokes)
    fill, edge, size = (FOUND, "#ffffff", 4.5) if after < 0 else ("#ffffff", LOST, 3)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}" stroke="{edge}"/>'


def _legend(y: float) -> str:
    shades = "".join(
        f'<rect x="{LEFT + 13 * n}" y="{y - 10}" width="13" height="11" fill="{shade}"/>'
        for n, shade in enumerate(SHADES)
    )
    marks = [
        (300, -1, "way to a held-out item, kept"),
        (520, 0, "lost here"),
        (620, 1, "what lies below is out of reach"),
    ]
    told = [
        _mark(LEFT + x - 50, y - 4, after) + _text(LEFT + x - 40, y, text, SOFT) for x, after, text in marks
    ]
    return shades + _text(LEFT + 72, y, "kept: low to high score", SOFT) + "".join(told)


def _text(x: float, y: float, text: str, ink: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(name: str, wide: float) -> str:
    most = max(int(wide / LETTER), 2)
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" font-size="11" '
        f'font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
