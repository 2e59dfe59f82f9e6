"""SVG drawings of a tree: its top levels, and one user's beam search."""

from collections.abc import Sequence

from shortlist.diagnose.tree.beam_trace import BeamLevel, ItemPath
from shortlist.diagnose.tree.diagnosis import TopNode, TreeDiagnosis
from shortlist.report.page import escaped

WIDTH = 960
INK, SOFT, LINE, STRIP = "#1c2430", "#5b6675", "#aab3bd", "#eceeea"
FOUND, LOST = "#2e8b57", "#c0392b"
SHADES = ("#d3e5ee", "#a9cddf", "#74aeca", "#3f87ab", "#1d5f82")  # of nodes in the beam, the best darkest
BOX, ROW = 46, 92  # height of a box, distance between rows of boxes
LEFT, TALL, STEP = 168, 18, 30  # margin, height of a strip, distance between strips
LETTER = 6.3  # width of a letter at 11 px


def draw_top(tree: TreeDiagnosis) -> str:
    """The top levels as boxes: the most common category of each node, its share, and the number of items below."""
    deepest = max(node.level for node in tree.top)
    centres = _centres(tree.top, deepest, tree.branch)
    width = min(150.0, WIDTH / max(sum(node.level == deepest for node in tree.top), 1) - 8)
    edges = [
        _edge(centres[node.level - 1, node.node // tree.branch], centres[node.level, node.node], node.level)
        for node in tree.top
        if node.level > 0
    ]
    boxes = [_box(node, centres[node.level, node.node], width) for node in tree.top]
    more = _more(tree, deepest)
    height = deepest * ROW + BOX + 8 + (20 if more else 0)
    return _svg(height, [*edges, *boxes, *more])


def draw_beam(tree: TreeDiagnosis) -> str:
    """Every level as a strip of all its nodes, those in the beam coloured, with the paths to relevant items."""
    trace = tree.trace
    top = 44
    scale = (WIDTH - LEFT - 10) / trace.leaves
    strips = [
        _strip(level, top + number * STEP, scale, trace.leaves) for number, level in enumerate(trace.levels)
    ]
    paths = [_item_path(path, top, scale) for path in trace.paths]
    bottom = top + len(trace.levels) * STEP
    return _svg(bottom + 30, [*_categories(tree, scale), *strips, *paths, _legend(bottom + 16)])


def _centres(nodes: Sequence[TopNode], deepest: int, branch: int) -> dict[tuple[int, int], float]:
    """The centre of every box: the lowest side by side, the others above the middle of their children."""
    lowest = [node.node for node in nodes if node.level == deepest]
    found = {(deepest, node): (at + 0.5) * WIDTH / len(lowest) for at, node in enumerate(lowest)}
    for level in range(deepest - 1, -1, -1):
        for node in (one.node for one in nodes if one.level == level):
            below = [x for (j, i), x in found.items() if j == level + 1 and i // branch == node]
            found[level, node] = sum(below) / len(below) if below else WIDTH / 2
    return found


def _box(node: TopNode, x: float, width: float) -> str:
    y = node.level * ROW + 2
    width = max(width, 108.0) if node.level == 0 else width
    name = "all items" if node.level == 0 else _short(node.category or "no category", width)
    count = f"{node.items:,}" if node.level == 0 else f"{node.share:.0%} of {node.items:,}"
    shade = SHADES[min(int(node.share * len(SHADES)), len(SHADES) - 1)] if node.level else "#ffffff"
    ink = "#ffffff" if shade in SHADES[3:] else INK
    title = f"{node.category or 'no category'}: {node.share:.1%} of {node.items:,} items"
    return (
        f'<g><title>{escaped(title)}</title><rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{BOX}" '
        f'rx="6" fill="{shade}" stroke="{LINE}"/>'
        + _text(x, y + 19, name, ink, "middle")
        + _text(x, y + 35, count, ink, "middle")
        + "</g>"
    )


def _edge(parent: float, x: float, level: int) -> str:
    start, end = (level - 1) * ROW + BOX + 2, level * ROW + 2
    half = (start + end) / 2
    path = f"M{parent:.1f} {start} C{parent:.1f} {half} {x:.1f} {half} {x:.1f} {end}"
    return f'<path d="{path}" fill="none" stroke="{LINE}"/>'


def _more(tree: TreeDiagnosis, deepest: int) -> list[str]:
    """The number of nodes of the lowest row that are not drawn."""
    shown = sum(node.level == deepest for node in tree.top)
    size = next((one.nodes for one in tree.levels if one.level == deepest), shown)
    if size <= shown:
        return []
    return [_text(WIDTH, deepest * ROW + BOX + 20, f"and {size - shown:,} more", SOFT, "end")]


def _strip(level: BeamLevel, y: float, scale: float, leaves: int) -> str:
    """All nodes of a level in grey, those in the beam coloured by their rank."""
    ranked = sorted(range(len(level.nodes)), key=lambda at: -level.scores[at])
    shade = {at: SHADES[-1 - place * len(SHADES) // max(len(ranked), 1)] for place, at in enumerate(ranked)}
    kept = "".join(
        _node(node, level.width, y, scale, leaves, shade[at]) for at, node in enumerate(level.nodes)
    )
    return (
        _text(0, y + 13, f"level {level.level}", INK)
        + _text(LEFT - 12, y + 13, f"{len(level.nodes):,} of {level.size:,} kept", SOFT, "end")
        + f'<rect x="{LEFT}" y="{y}" width="{leaves * scale:.1f}" height="{TALL}" fill="{STRIP}"/>{kept}'
    )


def _node(node: int, leaves_below: int, y: float, scale: float, leaves: int, shade: str) -> str:
    left = LEFT + node * leaves_below * scale
    width = (min((node + 1) * leaves_below, leaves) - node * leaves_below) * scale
    gap = 0.8 if width > 4 else 0.0
    return (
        f'<rect x="{left:.1f}" y="{y}" width="{max(width - gap, 1.2):.1f}" height="{TALL}" fill="{shade}"/>'
    )


def _categories(tree: TreeDiagnosis, scale: float) -> list[str]:
    """Categories of the leaves from left to right, by the lowest row of the drawing of the top."""
    deepest = max(node.level for node in tree.top)
    # Leaves under a full node of that row; free leaves count.
    width = tree.branch ** (tree.height - deepest)
    found, end = [], -1.0
    for node in (one for one in tree.top if one.level == deepest and one.category):
        first, last = node.node * width, min((node.node + 1) * width, tree.trace.leaves)
        room = (last - first) * scale - 6
        x = LEFT + first * scale
        if room > 40 and x > end:
            found.append(f'<path d="M{x:.1f} 30 v-6 h{room:.1f} v6" fill="none" stroke="{LINE}"/>')
            found.append(_text(x + room / 2, 18, _short(node.category, room), SOFT, "middle"))
            end = x + room
    return found


def _item_path(path: ItemPath, top: float, scale: float) -> str:
    x = LEFT + (path.leaf + 0.5) * scale
    rows = [(top + number * STEP + TALL / 2, node.kept) for number, node in enumerate(path.nodes)]
    alive = sum(kept for _, kept in rows)
    split = rows[min(alive, len(rows) - 1)][0]
    parts = [
        f'<path d="M{x:.1f} 34 V{split:.1f}" stroke="{FOUND}" stroke-width="1.5"/>',
        f'<path d="M{x:.1f} {split:.1f} V{rows[-1][0]:.1f}" stroke="{LOST}" stroke-dasharray="3 3"/>',
        *(_mark(x, y, number - alive) for number, (y, _) in enumerate(rows)),
    ]
    return f"<g><title>{escaped(path.title)}</title>{''.join(parts)}</g>"


def _mark(x: float, y: float, after: int) -> str:
    """A dot while the item's ancestor is in the beam, a cross where it is lost, a ring below."""
    if after == 0:
        cross = f"M{x - 5:.1f} {y - 5:.1f} l10 10 m0 -10 l-10 10"
        strokes = (("#ffffff", 6), (LOST, 3))
        return "".join(f'<path d="{cross}" stroke="{ink}" stroke-width="{width}"/>' for ink, width in strokes)
    fill, edge, size = (FOUND, "#ffffff", 4.5) if after < 0 else ("#ffffff", LOST, 3)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}" stroke="{edge}"/>'


def _legend(y: float) -> str:
    shades = "".join(
        f'<rect x="{LEFT + 13 * n}" y="{y - 10}" width="13" height="11" fill="{shade}"/>'
        for n, shade in enumerate(SHADES)
    )
    marks = [
        (300, -1, "ancestor of a relevant item, kept"),
        (520, 0, "lost here"),
        (620, 1, "below: cannot be returned"),
    ]
    entries = [
        _mark(LEFT + x - 50, y - 4, after) + _text(LEFT + x - 40, y, text, SOFT) for x, after, text in marks
    ]
    return shades + _text(LEFT + 72, y, "kept: low to high score", SOFT) + "".join(entries)


def _text(x: float, y: float, text: str, ink: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" text-anchor="{anchor}">{escaped(text)}</text>'


def _short(name: str, width: float) -> str:
    most = max(int(width / LETTER), 2)
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" font-size="11" '
        f'font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
