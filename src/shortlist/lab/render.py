"""A result for readers: a Markdown page, an SVG drawing, and the list of all claims."""

import re
from pathlib import Path

from shortlist.lab.result import Claim, Difference, Result, Row, read_result
from shortlist.report.plots import bars, lines, panels

MANY_ROWS = 1000  # with more, points of curves are in the JSON file only
MANY_LINES = 10  # with more, there is a plot for each place


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
            *_tables(result),
            *rows,
            *map(_row, _listed(result)),
            "",
        ]
    )


def result_drawings(result: Result) -> dict[str, str]:
    """SVG of each metric to draw, by the end of its file name; that of the first metric is empty."""
    if not result.drawings:
        return {"": result_drawing(result)}
    names = ["", *("-" + re.sub("[^a-z0-9]+", "-", metric.lower()) for metric in list(result.drawings)[1:])]
    drawings = (_drawing(result, metric, label) for metric, label in result.drawings.items())
    return dict(zip(names, drawings, strict=True))


def result_drawing(result: Result) -> str:
    """SVG of the first metric: a line per method for rows with an `x` where there are any, else a bar per method."""
    candidates = [row for row in result.rows if row.x is not None] or list(result.rows)
    return _drawing(result, candidates[0].metric, result.x or "x")


def _drawing(result: Result, metric: str, label: str) -> str:
    curves = any(row.x is not None for row in result.rows)
    shown = [row for row in result.rows if row.metric == metric and (row.x is not None) == curves]
    series: dict[str, list[Row]] = {}
    for row in shown if curves else ():
        series.setdefault(row.method, []).append(row)
    if not series:
        return bars([(row.method, row.mean) for row in shown], metric, [row.sd for row in shown])
    if len(series) > MANY_LINES and all(" on " in name for name in series):
        return panels(_by_place(series), (label, metric))
    with_spread = {name: [(_x(one), one.mean, one.sd) for one in own] for name, own in series.items()}
    return lines(with_spread, (label, metric), result.path)


def _x(row: Row) -> float:
    assert row.x is not None
    return row.x


def _by_place(series: dict[str, list[Row]]) -> dict[str, dict[str, list[tuple[float, float, float]]]]:
    """Lines of each place with two standard errors, from names `SYSTEM on PLACE`."""
    places: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for name, rows in series.items():
        system, _, place = name.partition(" on ")
        points = [(_x(one), one.mean, 2 * one.sd / len(one.values) ** 0.5) for one in rows]
        places.setdefault(place, {})[system] = points
    return places


def _listed(result: Result) -> list[Row]:
    return [row for row in result.rows if row.x is None or len(result.rows) <= MANY_ROWS]


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


def _tables(result: Result) -> list[str]:
    """A table for each place with paired differences."""
    places = dict.fromkeys(one.where for one in result.differences)
    return [line for where in places for line in _table(result, where)]


def _table(result: Result, where: str) -> list[str]:
    """Systems by metrics, with the differences of the first metric from each system."""
    end = f" on {where}"
    rows = [row for row in _listed(result) if row.method.endswith(end)]
    means = {(row.method.removesuffix(end), row.metric): f"{row.mean:.4g}" for row in rows}
    metrics = list(dict.fromkeys(row.metric for row in rows))
    own = [one for one in result.differences if one.where == where]
    differences = {(one.one, one.other): _interval(one) for one in own if one.metric == own[0].metric}
    references = list(dict.fromkeys(one for one, _ in differences))
    columns = ["system", *metrics, *(f"{one} - system, {own[0].metric}" for one in references)]
    head = [f"**{where}**", "", f"| {' | '.join(columns)} |"]
    lines = []
    for system in dict.fromkeys([*(name for name, _ in means), *(other for _, other in differences)]):
        cells = [system, *(means.get((system, metric), "") for metric in metrics)]
        cells += [differences.get((one, system), "") for one in references]
        lines.append(f"| {' | '.join(cells)} |")
    return [*head, "|---" * len(columns) + "|", *lines, ""]


def _interval(one: Difference) -> str:
    return f"{one.estimate:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


def _row(row: Row) -> str:
    metric = row.metric if row.x is None else f"{row.metric} at {row.x:.4g}"
    values = ", ".join(f"{value:.4f}" for value in row.values)
    return f"| {row.method} | {metric} | {row.mean:.4f} | {row.sd:.4f} | {values} |"


def _claim(claim: Claim) -> str:
    interval = "" if claim.interval is None else f"[{claim.interval[0]:.4f}, {claim.interval[1]:.4f}]"
    holds = "yes" if claim.holds else "**no**"
    return f"| {claim.id} | {holds} | {claim.estimate:.4f} | {interval} | {claim.note} |"
