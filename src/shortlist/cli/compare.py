"""shortlist compare: several bundles on the same users, with paired tests and latency."""

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.cli.console.frame import Json, Seed, check_file, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import Console, Table, echo
from shortlist.cli.evaluate import Baselines, CutOffs, Metrics
from shortlist.evaluate.compare import Comparison
from shortlist.evaluate.compare import compare as compare_bundles
from shortlist.evaluate.headline import part_name
from shortlist.metrics.significance import p_text
from shortlist.report.compare import compare_drawing, compare_page
from shortlist.report.page import difference, interval


@errors_to_exit_codes()
def compare(
    bundles: Annotated[
        list[Path],
        typer.Argument(help="Folders made by `shortlist train`; the others are compared with the first."),
    ],
    data: Annotated[Path, typer.Option(help="The prepared data set all of them were trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out users: test or valid.")] = "test",
    metric: Annotated[
        str | None, typer.Option(help="The metric of the paired tests. Default: recall@20.")
    ] = None,
    metrics: Metrics = None,
    at: CutOffs = None,
    baselines: Baselines = "auto",
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    drawing: Annotated[Path | None, typer.Option(help="Write the plot alone to this SVG file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Several bundles and the baselines on the same users: intervals, paired tests, quality against latency."""
    start = time.perf_counter()
    check_file(report, "--report")
    check_file(drawing, "--drawing")
    with progress() as show_progress:
        found = compare_bundles(
            bundles,
            data,
            on=on,
            metric=metric,
            metrics=metrics,
            at=at,
            baselines=baselines,
            seed=seed,
            progress=show_progress,
        )
    seconds = time.perf_counter() - start
    if report is not None:
        write_whole(report, compare_page(found))
    if drawing is not None:
        write_whole(drawing, compare_drawing(found))
    if json:
        emit({**as_json(found), "seconds": seconds, "report": report, "drawing": drawing})
        return
    show(found)
    for name, path in (("report", report), ("drawing", drawing)):
        if path is not None:
            echo(f"{name}: {path}")


def show(found: Comparison) -> None:
    """Print a comparison."""
    console = Console()
    for name, system in found.systems.items():
        console.print(f"{name}: {system.headline.sentence}")
    console.print(quality_table(found))
    console.print(pairs_table(found))
    console.print(t_tests_table(found))
    console.print(latency_table(found))
    console.print_notes(found.protocol.rows(), found.warnings)


def quality_table(found: Comparison) -> Table:
    """The metric of the tests with its interval, other metrics at the same cut, baselines below."""
    cut = found.metric.partition("@")[2]
    listed = [f"{word}@{cut}" for word in ("recall", "ndcg", "f1", "hit_rate", "mrr")]
    known = next(iter(found.metrics.values())).metrics
    others = [name for name in listed if name in known and name != found.metric]
    title = f"{found.users:,} {part_name(found.protocol.on)}, the same for all"
    table = Table(title=title, title_justify="left")
    for name in ("system", found.metric, *others):
        stacked = name if name == found.metric else name.replace("@", "\n@").replace("_", "\n")
        table.add_column(stacked, overflow="fold", no_wrap=name != "system")
    for name, system in found.metrics.items():
        means = (_number(system.metrics[other].mean, 4) for other in others)
        last = name == list(found.systems)[-1]
        table.add_row(name, interval(system.metrics[found.metric]), *means, end_section=last)
    return table


def pairs_table(found: Comparison) -> Table:
    """Paired tests against the first system and the best baseline."""
    table = Table(title=f"paired tests: {found.metric}", title_justify="left")
    for name in ("system", "against", "difference", "p\nHolm", "d_z", "won/\ntied/\nlost"):
        table.add_column(name, overflow="fold", no_wrap=name not in ("system", "against"))
    for pair in found.pairs:
        test = pair.test
        table.add_row(
            pair.system,
            pair.against,
            difference(test),
            p_text(pair.p_holm),
            _number(test.effect_size, 2),
            f"{test.wins}/{test.ties}/{test.losses}",
        )
    return table


def t_tests_table(found: Comparison) -> Table:
    """The same differences by the paired t-test, and by Welch's, which ignores that the users are the same."""
    table = Table(title=f"t-tests: {found.metric}, Holm's p-values", title_justify="left")
    for name in ("system", "against", "paired t-test", "p", "p, Welch"):
        table.add_column(name, overflow="fold", no_wrap=name not in ("system", "against"))
    for pair in found.pairs:
        if pair.t_tests is not None:
            own = pair.t_tests
            shown = map(p_text, (own.paired_holm, own.welch_holm))
            table.add_row(pair.system, pair.against, difference(own.paired), *shown)
    return table


def latency_table(found: Comparison) -> Table:
    """Latency of one request, and throughput in batches."""
    table = Table(title="latency on one thread, systems in alternation", title_justify="left")
    for name in ("system", "median ms", "p95 ms", "timed", "per second, batches of 64", "timed"):
        table.add_column(name, justify="left" if name == "system" else "right")
    for name, system in found.systems.items():
        own = system.latency
        table.add_row(
            name,
            _number(own.median_ms, 2),
            _number(own.p95_ms, 2),
            f"{own.requests:,}",
            _number(own.per_second, 0),
            f"{own.batches * own.batch:,}",
        )
    return table


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"
