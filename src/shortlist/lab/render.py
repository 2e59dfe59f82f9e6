"""A result for people: a Markdown page, a drawing, and the list of all claims."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shortlist.report.plots import bars, lines


def result_page(told: Mapping[str, Any]) -> str:
    """Markdown for one result."""
    head = (
        f"# {told['name']}\n\nProfile {told['profile']}, seeds {', '.join(map(str, told['seeds']))}, "
        f"{told['seconds']:.0f} s on {told['machine']}, commit {told['commit'] or 'unknown'}, "
        f"shortlist {told['package']}.\n"
    )
    if "note" in told:
        head += f"\n{told['note']}\n"
    claims = ["| claim | holds | estimate | interval | note |", "|---|---|---|---|---|"]
    claims += [_claim(one) for one in told["claims"]]
    rows = ["| method | metric | mean | sd | values |", "|---|---|---|---|---|"]
    rows += [
        f"| {one['method']} | {_metric(one)} | {one['mean']:.4f} | {one['sd']:.4f} | "
        f"{', '.join(f'{value:.4f}' for value in one['values'])} |"
        for one in told["rows"]
    ]
    return "\n".join([head, *claims, "", *rows, ""])


def result_drawing(told: Mapping[str, Any]) -> str:
    """As SVG: a line per method where rows have an `x`, else a bar per method, for the first such metric."""
    drawn = [one for one in told["rows"] if "x" in one] or told["rows"]
    metric = drawn[0]["metric"]
    shown = [one for one in drawn if one["metric"] == metric]
    if "x" not in drawn[0]:
        return bars([(one["method"], one["mean"]) for one in shown], metric, [one["sd"] for one in shown])
    series: dict[str, list[tuple[float, float, float]]] = {}
    for one in shown:
        series.setdefault(one["method"], []).append((one["x"], one["mean"], one["sd"]))
    return lines(series, (told.get("x", "x"), metric), bool(told.get("path")))


def _metric(one: Mapping[str, Any]) -> str:
    return f"{one['metric']} at {one['x']:.4g}" if "x" in one else str(one["metric"])


def claims_page(folder: Path) -> str:
    """Markdown with a line for every claim of every result in a folder."""
    lines = [
        "# Results",
        "",
        "| result | claim | holds | estimate | interval | note |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text("utf-8"))
        lines += [f"| [{path.stem}]({path.stem}.md) {_claim(one)}" for one in told["claims"]]
    return "\n".join([*lines, ""])


def _claim(one: Mapping[str, Any]) -> str:
    interval = f"[{one['interval'][0]:.4f}, {one['interval'][1]:.4f}]" if "interval" in one else ""
    holds = "yes" if one["holds"] else "**no**"
    return f"| {one['id']} | {holds} | {one['estimate']:.4f} | {interval} | {one['note']} |"
