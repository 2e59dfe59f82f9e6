"""shortlist evaluate: metrics and stage losses of a bundle on its held-out users."""

import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.output import Console, Table, echo
from shortlist.evaluate.evaluation import Evaluation
from shortlist.evaluate.evaluation import evaluate as evaluate_bundle
from shortlist.report.page import difference, interval
from shortlist.report.run import run_page


@errors_to_exit_codes()
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out users: test or valid.")] = "test",
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Metrics with intervals beside those of baselines, and which stage loses how many relevant items."""
    start = time.perf_counter()
    with progress() as show_progress:
        found = evaluate_bundle(bundle, data, on=on, seed=seed, progress=show_progress)
    seconds = time.perf_counter() - start
    if report is not None:
        write_whole(report, run_page(found))
    if json:
        emit({**as_json(found), "seconds": seconds, "report": report})
        return
    show(found)
    if report is not None:
        echo(f"report: {report}")


def show(found: Evaluation) -> None:
    """Print an evaluation."""
    console = Console()
    console.print(metrics_table(found))
    console.print(stages_table(found))
    for name, rule in found.protocol.rows().items():
        console.print(f"{name}: {rule}")
    for warning in found.warnings:
        console.print(f"warning: {warning}", style="yellow")


def metrics_table(found: Evaluation) -> Table:
    """The pipeline with intervals beside the means of the baselines on the same users."""
    best = found.best_baseline
    caption = f"recall@20 above {best}, the best baseline: {difference(found.differences[best]['recall@20'])}"
    table = Table(title=f"{found.users:,} held-out users", title_justify="left", caption=caption)
    table.caption_justify = "left"
    for name in ("metric", *found.metrics):
        table.add_column(name.replace(" ", "\n", 1), no_wrap=True)
    pipeline, *baselines = (system.metrics for system in found.metrics.values())
    for name in pipeline:
        if name.endswith("@20"):
            means = (interval(own[name]).partition(" ")[0] for own in baselines)
            table.add_row(name, interval(pipeline[name]), *means)
    return table


def stages_table(found: Evaluation) -> Table:
    """Which stage loses how many relevant items."""
    title = f"which stage lost what: {found.losses.relevant:,} relevant items"
    table = Table(title=title, title_justify="left")
    for name in ("stage", "entered", "survived", "lost", "share"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in found.losses.stages:
        counts = (f"{count:,}" for count in (stage.entered, stage.survived, stage.lost))
        table.add_row(stage.name, *counts, f"{found.losses.share(stage.lost):.1%}")
    return table
