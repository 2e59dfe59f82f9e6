"""A result for readers: a Markdown page, an SVG drawing, and the list of all claims."""

from collections.abc import Sequence
from pathlib import Path

from shortlist.lab.result import Claim, Difference, Result, Row, read_result
from shortlist.report.plots import bars, lines


def result_page(result: Result) -> str:
    """Markdown of one result."""
    changes = " with uncommitted changes" if result.dirty else ""
    head = (
        f"# {result.name}\n\nProfile {result.profile}, seeds {', '.join(map(str, result.seeds))}, "
        f"{result.seconds:.0f} s on {result.machine}, commit {result.commit or 'unknown'}{changes}, "
        f"shortlist {result.package}.\n"
    )
    note = [f"{result.note}\n"] if result.note else []
    claims = ["| claim | holds | estimate | interval | note |", "|---|---|---|---|---|"]
    rows = ["| method | metric | mean | sd | values |", "|---|---|---|---|---|"]
    return "\n".join(
        [
            head,
            *note,
            *claims,
            *map(_claim, result.claims),
            "",
            *_differences(result.differences),
            *rows,
            *map(_row, result.rows),
            "",
        ]
    )


def result_drawing(result: Result) -> str:
    """SVG of the first metric: a line per method for rows with an `x` where there are any, else a bar per method."""
    candidates = [row for row in result.rows if row.x is not None] or list(result.rows)
    metric = candidates[0].metric
    shown = [row for row in candidates if row.metric == metric]
    series: dict[str, list[tuple[float, float, float]]] = {}
    for row in shown:
        if row.x is not None:
            series.setdefault(row.method, []).append((row.x, row.mean, row.sd))
    if not series:
        return bars([(row.method, row.mean) for row in shown], metric, [row.sd for row in shown])
    return lines(series, (result.x or "x", metric), result.path)


def claims_page(folder: Path) -> str:
    """Markdown with a line for every claim of every result in a folder."""
    table = [
        "# Results",
        "",
        "| result | claim | holds | estimate | interval | note |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.json")):
        table += [f"| [{path.stem}]({path.stem}.md) {_claim(claim)}" for claim in read_result(path).claims]
    return "\n".join([*table, ""])


def _differences(differences: Sequence[Difference]) -> list[str]:
    """A table per data set and metric; empty without differences."""
    table = ["| on | difference | metric | estimate | interval | users |", "|---|---|---|---|---|---|"]
    table += [
        f"| {one.where} | {one.one} - {one.other} | {one.metric} | {one.estimate:.4f} | "
        f"[{one.low:.4f}, {one.high:.4f}] | {one.users} |"
        for one in differences
    ]
    return [*table, ""] if differences else []


def _row(row: Row) -> str:
    metric = row.metric if row.x is None else f"{row.metric} at {row.x:.4g}"
    values = ", ".join(f"{value:.4f}" for value in row.values)
    return f"| {row.method} | {metric} | {row.mean:.4f} | {row.sd:.4f} | {values} |"


def _claim(claim: Claim) -> str:
    interval = "" if claim.interval is None else f"[{claim.interval[0]:.4f}, {claim.interval[1]:.4f}]"
    holds = "yes" if claim.holds else "**no**"
    return f"| {claim.id} | {holds} | {claim.estimate:.4f} | {interval} | {claim.note} |"
