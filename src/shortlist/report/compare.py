"""The page of a comparison: who is better, how sure that is, and what it costs."""

from collections.abc import Mapping
from typing import Any

from shortlist.report.page import Html, Section, code, facts, figure, interval, page, table
from shortlist.report.run import rules_section
from shortlist.report.scatter import scatter

Told = Mapping[str, Any]


def compare_page(told: Told) -> str:
    """One HTML document from what `compare` found."""
    sections = [
        _headline(told),
        _drawing(told),
        _quality(told),
        _pairs(told),
        _time(told),
        rules_section(told["protocol"]),
        _systems(told),
    ]
    return page(f"{len(told['systems'])} systems on {told['about']['data']}", sections)


def compare_drawing(told: Told) -> str:
    """Quality against the time of a request, as SVG."""
    metric = told["metric"]
    points = {}
    for name, one in told["systems"].items():
        middle, low, high = (one["metrics"][metric][key] or 0.0 for key in ("mean", "low", "high"))
        points[name] = (max(one["latency"]["median_ms"], 1e-3), middle, low, high)
    levels = {name: one["metrics"][metric]["mean"] or 0.0 for name, one in told["yardsticks"].items()}
    return scatter(points, levels, ("milliseconds for one request (median, one thread)", metric))


def _headline(told: Told) -> Section:
    shown = facts({name: told[name] for name in ("users", "metric", "best yardstick")})
    parts: list[Html | str] = [*told["findings"], shown]
    if told["warnings"]:
        parts += ["What speaks against trusting it:", table(["warning"], [[one] for one in told["warnings"]])]
    return Section("In short", parts)


def _drawing(told: Told) -> Section:
    caption = (
        "Means over the same users with 95 % bootstrap intervals, against the time one request takes; up and to the "
        "left is better. Lines are yardsticks."
    )
    return Section("What it is worth, and what it costs", [figure(compare_drawing(told), caption)])


def _quality(told: Told) -> Section:
    everyone = {**told["systems"], **told["yardsticks"]}
    named = next(iter(everyone.values()))["metrics"]
    parts: list[Html | str] = []
    for cut in sorted({int(name.partition("@")[2]) for name in named}):
        words = [name.partition("@")[0] for name in named if name.endswith(f"@{cut}")]
        rows = [[who, *(_cell(one["metrics"][f"{w}@{cut}"]) for w in words)] for who, one in everyone.items()]
        whole = [name for name in next(iter(everyone.values()))["whole"] if name.endswith(f"@{cut}")]
        rows = [[*row, *(everyone[row[0]]["whole"][name] for name in whole)] for row in rows]
        heads = [f"at {cut}", *words, *(name.partition("@")[0] for name in whole)]
        parts.append(table([head.replace("_", " ") for head in heads], rows))
    return Section("How good they are", parts)


def _cell(one: Told) -> Html:
    """A mean with its interval below it."""
    mean, _, reach = interval(one).partition(" ")
    return Html(f"{mean}<br><small>{reach}</small>")


def _pairs(told: Told) -> Section:
    rows = [
        [
            one["system"],
            one["against"],
            interval(one, "difference"),
            _p(one["p_value"]),
            _p(one["p_holm"]),
            "–" if one["effect_size"] is None else f"{one['effect_size']:.2f}",
            f"{one['wins']} / {one['ties']} / {one['losses']}",
        ]
        for one in told["comparisons"]
    ]
    heads = ["system", "against", "difference", "p", "p, Holm", "effect d_z", "wins / ties / losses"]
    return Section(
        f"User by user: {told['metric']}",
        [
            "Differences on the same users with 95 % bootstrap intervals. p-values come from a randomisation test; "
            f"Holm's are corrected for all {len(rows)} comparisons of this table.",
            table(heads, rows),
        ],
    )


def _time(told: Told) -> Section:
    rows = [
        [
            name,
            one["median_ms"],
            one["p95_ms"],
            one["per_second"],
            one["requests"],
            one["batches"] * one["batch"],
        ]
        for name, one in ((name, system["latency"]) for name, system in told["systems"].items())
    ]
    heads = [
        "system",
        "median ms",
        "95 % within ms",
        "requests per second",
        "timed alone",
        "timed in batches",
    ]
    return Section(
        "How long they take",
        [
            "All systems took turns on the same requests in one run, on one thread, after some that were not counted. "
            "Alone: one request at a time. Requests per second: in batches of 64.",
            table(heads, rows),
        ],
    )


def _systems(told: Told) -> Section:
    parts: list[Html | str] = []
    for name, one in told["systems"].items():
        parts += [f"{name}: {_made(one)}", code(one["pipeline"])]
    return Section("The systems", parts)


def _made(one: Told) -> str:
    went = [f"{stage} {_went(course)}" for stage, course in one["training"].items()]
    return "; ".join([f"model {one['version']}, seed {one['seed']}, package {one['package']}", *went])


def _went(course: Told) -> str:
    known = {True: "converged", False: "did not converge", None: "nobody judged"}[course["converged"]]
    best = f", best at {course['best']}" if course["best"] else ""
    return f"{course['epochs']} of {course['most']} epochs{best}, {known}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
