"""shortlist quickstart: from nothing to an explained slate, on the embedded data."""

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist import __version__
from shortlist.artifact.staging import write_whole
from shortlist.cli.console.frame import Json, Seed, command, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import Console, echo
from shortlist.cli.console.plan_tables import show_plan_report
from shortlist.cli.evaluate import metrics_table, stages_table
from shortlist.cli.recommend import slate_table
from shortlist.data import save_dataset
from shortlist.evaluate import Evaluation, evaluate
from shortlist.evaluate.lookup import look_up_users
from shortlist.pipeline import Recommender
from shortlist.pipeline.recommender import Request
from shortlist.report import run_page
from shortlist.simulate import embedded
from shortlist.train import train
from shortlist.train.bundle import AUTO

RECIPE = AUTO
MINUTES = 1.0  # time budget of the training


@errors_to_exit_codes()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the data set, the bundle and the report.")] = Path(
        "runs/quickstart"
    ),
    size: Annotated[str, typer.Option(help="Size of the embedded data: demo or small.")] = "demo",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a pipeline on the embedded data and show which stage loses what."""
    start = time.perf_counter()
    report = out / "report.html"
    with progress() as show_progress:
        show_progress("generate data", 0, 1)
        dataset = embedded(seed, size)
        save_dataset(dataset, out / "data", __version__, overwrite=True)
        show_progress("generate data", 1, 1)
        minutes = MINUTES if RECIPE == AUTO else None
        bundle = train(
            RECIPE, dataset, out / "bundle", minutes=minutes, seed=seed, force=True, progress=show_progress
        )
        evaluation = evaluate(bundle, dataset, seed=seed, progress=show_progress)
        users = look_up_users(bundle, dataset, users=[evaluation.example.user], seed=seed)
    write_whole(report, run_page(evaluation, users))
    seconds = time.perf_counter() - start
    if json:
        emit({"seconds": seconds, "report": report, "evaluation": evaluation})
        return
    show(evaluation, bundle, out, seconds)


def show(evaluation: Evaluation, bundle: Recommender, out: Path, seconds: float) -> None:
    """The headline, metrics, stage losses, one measured request, and the next commands."""
    console, example = Console(), evaluation.example
    if bundle.about.plan is not None:
        show_plan_report(bundle.about.plan)
        console.print()
    console.print(evaluation.headline.sentence)
    console.print(metrics_table(evaluation))
    console.print(stages_table(evaluation))
    history = ", ".join(f"{item.title} ({item.category})" for item in example.history[:5])
    console.print()
    console.print(f"user {example.user} as measured, latest items: {history}")
    console.print(slate_table(bundle, example.items))
    for lost in example.lost:
        echo(f"  {lost.sentence}")
    echo("")
    echo(f"done in {seconds:.0f} s. Report: {out / 'report.html'}")
    program = "shortlist" if shutil.which("shortlist") else sys.argv[0]
    dropped = dropped_item(bundle, example.user)
    echo("next, find out which stage dropped an item:")
    echo(
        f"  {command('explain', out / 'bundle', '--user', example.user, '--item', dropped, program=program)}"
    )
    echo("or which stage loses most, and what changing it would bring:")
    report = ("--report", out / "diagnosis.html")
    echo(f"  {command('diagnose', out / 'bundle', '--data', out / 'data', *report, program=program)}")
    echo("or serve it over HTTP:")
    echo(f"  {command('serve', out / 'bundle', program=program)}")


def dropped_item(bundle: Recommender, user: int | str) -> int | str:
    """An item that is nominated for a user now and not returned, or the first one that is returned."""
    slate = bundle.recommend(Request(user))
    nominated = slate.trace.nominated
    returned = slate.items[0].tolist()
    dropped = [row for row in nominated.items[0][nominated.valid[0]].tolist() if row not in returned]
    return bundle.item([*dropped, *returned][0]).item_id
