"""shortlist evaluate: metrics and stage losses of a bundle on its held-out users."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.cli.console.frame import Bundle, Json, Seed, check_file, emit, errors_to_exit_codes, progress
from shortlist.cli.console.funnel_tables import funnel_table, reveal_table
from shortlist.cli.console.output import Console, Table, echo
from shortlist.data import open_dataset
from shortlist.evaluate.evaluation import Evaluation
from shortlist.evaluate.evaluation import evaluate as evaluate_bundle
from shortlist.evaluate.headline import part_name
from shortlist.evaluate.lookup import look_up_users
from shortlist.evaluate.pipeline_evaluation import PIPELINE
from shortlist.evaluate.protocol.fitted_baselines import check_choice
from shortlist.evaluate.protocol.measures import KS, choose_measures
from shortlist.pipeline import load_recommender
from shortlist.report.page import difference, interval
from shortlist.report.run import run_page

SHOWN = 3  # baselines beside the pipeline: more do not fit into a terminal

Metrics = Annotated[
    str | None,
    typer.Option(
        help="Metrics, like recall,ndcg,mrr; the first decides. Default: all but ndcg_hits, recall decides."
    ),
]
CutOffs = Annotated[
    str | None,
    typer.Option(help="Cut-offs, like 5,10,50; slates have as many items as the largest. Default: 10,20."),
]

Baselines = Annotated[
    str,
    typer.Option(
        help="counts: only counted baselines. all: also EASE and item neighbours, fitted where the bundle does not "
        "store them. auto: fitted only where that is cheap."
    ),
]


@errors_to_exit_codes()
def evaluate(
    bundle: Bundle,
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out users: test or valid.")] = "test",
    metrics: Metrics = None,
    at: CutOffs = None,
    baselines: Baselines = "auto",
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Metrics with intervals beside those of baselines, and which stage loses how many relevant items."""
    start = time.perf_counter()
    with progress() as show_progress:
        check_file(report, "--report")
        choose_measures(metrics, at)  # refuse a wrong choice before anything is loaded
        check_choice(baselines)
        recommender, dataset = load_recommender(bundle), open_dataset(data)
        found = evaluate_bundle(
            recommender,
            dataset,
            on=on,
            metrics=metrics,
            at=at,
            baselines=baselines,
            seed=seed,
            progress=show_progress,
        )
    seconds = time.perf_counter() - start
    if report is not None:
        shown = found.example.user
        users = look_up_users(recommender, dataset, on=on, k=found.headline.slate, users=[shown], seed=seed)
        write_whole(report, run_page(found, users))
    if json:
        emit({**as_json(found), "seconds": seconds, "report": report})
        return
    show(found)
    if report is not None:
        echo(f"report: {report}")


def show(found: Evaluation) -> None:
    """Print an evaluation."""
    console = Console()
    console.print(found.headline.sentence)
    console.print(metrics_table(found))
    if len(found.differences) > SHOWN:
        console.print(baselines_table(found))
    console.print(stages_table(found))
    console.print(funnel_table(found.funnel))
    console.print(reveal_table(found.funnel.nominators))
    console.print_notes(found.protocol.rows(), found.warnings)


def metrics_table(found: Evaluation) -> Table:
    """The pipeline with intervals beside the means of the best baselines on the same users."""
    title = f"{found.users:,} {part_name(found.headline.on)}"
    table = Table(title=title, title_justify="left")
    shown = sorted(found.differences, key=lambda name: -found.mean(name))[:SHOWN]
    systems = {name: own for name, own in found.metrics.items() if name == PIPELINE or name in shown}
    for name in ("metric", *systems):
        table.add_column(name.replace(" ", "\n", 1), no_wrap=True)
    pipeline, *baselines = systems.values()
    for name in filter(_is_shown(found), pipeline.metrics):
        means = (interval(own.metrics[name]).partition(" ")[0] for own in baselines)
        table.add_row(name, interval(pipeline.metrics[name]), *means)
    for name in filter(_is_shown(found), pipeline.catalog):
        table.add_row(name, *(f"{own.catalog[name]:.4f}" for own in (pipeline, *baselines)))
    return table


def baselines_table(found: Evaluation) -> Table:
    """Every baseline by the metric that decides, the best first, and the difference of the pipeline to it."""
    metric = found.headline.metric
    table = Table(title=f"{metric} of every baseline", title_justify="left")
    for name in ("baseline", metric, "pipeline less baseline"):
        table.add_column(name, no_wrap=True)
    for name in sorted(found.differences, key=lambda name: -found.mean(name)):
        table.add_row(
            name, interval(found.metrics[name].metrics[metric]), difference(found.differences[name][metric])
        )
    return table


def _is_shown(found: Evaluation) -> Callable[[str], bool]:
    """All cut-offs that were chosen; without a choice, only the largest of the usual ones."""
    cuts = tuple(sorted({int(name.partition("@")[2]) for name in found.metrics[PIPELINE].metrics}))
    shown = {found.headline.slate} if cuts == KS else set(cuts)
    return lambda name: int(name.partition("@")[2]) in shown


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
