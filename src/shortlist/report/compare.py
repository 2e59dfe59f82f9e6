"""The page of a comparison: metrics, paired tests, latency and warnings."""

import math

from shortlist.diagnose.findings.text import counted
from shortlist.evaluate.compare import Comparison
from shortlist.metrics.significance import p_text
from shortlist.pipeline.about import About, TrainingHistory
from shortlist.report.funnel_tables import with_bounds
from shortlist.report.page import (
    Html,
    Section,
    code,
    difference,
    facts,
    figure,
    folded,
    interval,
    page,
    table,
)
from shortlist.report.run import protocol_section
from shortlist.report.scatter import scatter

CORRECTED = "The same tests with Holm's correction for the number of comparisons:"


def compare_page(found: Comparison) -> str:
    """One HTML document of a comparison."""
    sections = [
        _drawing(found),
        _headline(found),
        *folded(
            [
                _metrics(found),
                _pairs(found),
                _latency(found),
                protocol_section(found.protocol),
                _systems(found),
            ]
        ),
    ]
    return page(f"{counted(len(found.systems), 'system')} on {found.data}", sections)


def compare_drawing(found: Comparison) -> str:
    """Quality against latency, as SVG."""
    points = {}
    for name, system in found.systems.items():
        value = system.scores.metrics[found.metric]
        quality = (value.mean, value.low, value.high) if not math.isnan(value.mean) else (0.0, 0.0, 0.0)
        points[name] = (max(system.latency.median_ms, 1e-3), *quality)
    means = {name: own.metrics[found.metric].mean for name, own in found.baselines.items()}
    levels = {name: 0.0 if math.isnan(mean) else mean for name, mean in means.items()}
    return scatter(points, levels, ("milliseconds for one request (median, one thread)", found.metric))


def _headline(found: Comparison) -> Section:
    shown = facts({"users": found.users, "metric": found.metric, "best baseline": found.best_baseline})
    headlines = [f"{name}: {system.headline.sentence}" for name, system in found.systems.items()]
    tests = [] if len(found.systems) == 1 else [CORRECTED, *found.findings]
    parts: list[Html | str] = [*headlines, *tests, shown]
    if found.warnings:
        parts += ["Reasons for caution:", table(["warning"], [[text] for text in found.warnings])]
    return Section("Summary", parts)


def _drawing(found: Comparison) -> Section:
    caption = (
        "Means over the same users with 95 % bootstrap intervals, against the latency of one request; up and to the "
        "left is better. Lines are baselines."
    )
    return Section("Quality and latency", [figure(compare_drawing(found), caption)])


def _metrics(found: Comparison) -> Section:
    systems = found.metrics
    first = next(iter(systems.values()))
    parts: list[Html | str] = []
    for cut in sorted({int(name.partition("@")[2]) for name in first.metrics}):
        names = [name for name in first.metrics if name.endswith(f"@{cut}")]
        catalog = [name for name in first.catalog if name.endswith(f"@{cut}")]
        rows: list[list[object]] = [
            [
                name,
                *(with_bounds(interval(own.metrics[metric])) for metric in names),
                *(own.catalog[one] for one in catalog),
            ]
            for name, own in systems.items()
        ]
        heads = [f"at {cut}", *(name.partition("@")[0] for name in (*names, *catalog))]
        parts.append(table([head.replace("_", " ") for head in heads], rows))
    return Section("Metrics", parts)


def _pairs(found: Comparison) -> Section:
    rows = [
        [
            pair.system,
            pair.against,
            difference(pair.test),
            p_text(pair.test.p_value),
            p_text(pair.p_holm),
            _number(pair.test.effect_size, 2),
            f"{pair.test.wins} / {pair.test.ties} / {pair.test.losses}",
        ]
        for pair in found.pairs
    ]
    heads = ["system", "against", "difference", "p", "p, Holm", "effect d_z", "wins / ties / losses"]
    return Section(
        f"Paired tests: {found.metric}",
        [
            "Differences on the same users with 95 % bootstrap intervals. p-values are those of a randomisation test"
            + (f"; Holm's are corrected for all {len(rows)} comparisons of this table." if rows[1:] else "."),
            table(heads, rows),
            "The same differences by two t-tests, which assume a normal distribution. Welch's test also ignores that "
            "the users are the same, so it misses differences that a paired test finds:",
            _t_tests(found),
        ],
    )


def _t_tests(found: Comparison) -> Html:
    rows = [
        [
            pair.system,
            pair.against,
            with_bounds(difference(own.paired)),
            p_text(own.paired_holm),
            with_bounds(difference(own.welch)),
            p_text(own.welch_holm),
        ]
        for pair in found.pairs
        if (own := pair.t_tests) is not None
    ]
    return table(["system", "against", "paired t-test", "p, Holm", "Welch's test", "p, Holm"], rows)


def _latency(found: Comparison) -> Section:
    rows = [
        [name, own.median_ms, own.p95_ms, own.per_second, own.requests, own.batches * own.batch]
        for name, own in ((name, system.latency) for name, system in found.systems.items())
    ]
    heads = ["system", "median ms", "p95 ms", "requests per second", "timed alone", "timed in batches"]
    return Section(
        "Latency",
        [
            "All systems answer the same requests in alternation in one run, on one thread, after a warm-up. Alone: "
            "one request at a time. Requests per second: in batches of 64.",
            table(heads, rows),
        ],
    )


def _systems(found: Comparison) -> Section:
    parts: list[Html | str] = []
    for name, system in found.systems.items():
        parts += [f"{name}: {_about(system.about)}", code(system.expression)]
    return Section("Systems", parts)


def _about(about: About) -> str:
    training = [f"{stage} {_training(history)}" for stage, history in about.training.items()]
    return "; ".join([f"model {about.version}, seed {about.seed}, package {about.package}", *training])


def _training(history: TrainingHistory) -> str:
    outcome = {True: "converged", False: "did not converge", None: "no validation"}[history.converged]
    best = f", best epoch {history.best_epoch}" if history.best_epoch else ""
    return f"{history.epochs} of {history.max_epochs} epochs{best}, {outcome}"


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
