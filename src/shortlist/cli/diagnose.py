"""shortlist diagnose: which stage loses relevant items, why, and what changing a knob brings."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.cli.console.diagnosis_tables import show
from shortlist.cli.console.frame import (
    Bundle,
    Json,
    Seed,
    Settings,
    check_file,
    emit,
    errors_to_exit_codes,
    progress,
)
from shortlist.cli.console.output import Console, echo
from shortlist.data import open_dataset
from shortlist.diagnose.bundle import diagnose as diagnose_bundle
from shortlist.diagnose.findings.text import counted
from shortlist.diagnose.knobs.retrain import MINUTES
from shortlist.diagnose.knobs.variants import check_variants
from shortlist.evaluate.lookup import look_up_users
from shortlist.evaluate.protocol.measures import MOST, SLATE
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.recipe_settings import parse_settings
from shortlist.report.diagnosis.page import diagnosis_page


@errors_to_exit_codes()
def diagnose(
    bundle: Bundle,
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out users: valid or test.")] = "valid",
    at: Annotated[int, typer.Option(min=1, max=MOST, help="Items per slate, and cut-off of recall.")] = SLATE,
    users: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many of them to sample for all but the headline; up to 1,000 by default."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Search the best sizes within this latency per request, such as 30ms or 0.03s."),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain", help="Also train the recipe again with one change at a time, and measure each."
        ),
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=0.0, help="Time for the trainings of --retrain; what does not fit is said.")
    ] = MINUTES,
    settings: Settings = None,
    shapley: Annotated[
        bool,
        typer.Option(
            "--shapley", help="Also run every set of nominators: Shapley values of the recall of slates."
        ),
    ] = False,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", min=1, help="Items per request from each tree. Default: the tree's limit."),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam width of each tree. Default: as trained.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the report to this HTML file.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", hidden=True, help="The same as --report.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Which stage loses how many relevant items, why, and which knob recovers how much recall."""
    start = time.perf_counter()
    report = report or html
    check_file(report, "--report")
    recommender, dataset = load_recommender(bundle), open_dataset(data)
    changed = parse_settings(settings or [])
    if retrain:
        _announce(recommender, changed, minutes)
    with progress() as show_progress:
        found = diagnose_bundle(
            recommender,
            dataset,
            on=on,
            at=at,
            users=users,
            budget=budget,
            retrain=retrain,
            minutes=minutes,
            settings=changed,
            shapley=shapley,
            k=k,
            beam=beam,
            seed=seed,
            progress=show_progress,
        )
    found = replace(found, seconds=time.perf_counter() - start)
    if report is not None:
        write_whole(
            report, diagnosis_page(found, look_up_users(recommender, dataset, on=on, k=at, seed=seed))
        )
    if json:
        emit({**as_json(found), "report": report})
        return
    show(found, Console())
    if report is not None:
        echo(f"report: {report}")


def _announce(bundle: Recommender, settings: Mapping[str, Any], minutes: float) -> None:
    """Say which trainings follow before they start."""
    tried = check_variants(bundle, settings)
    changes = ", ".join(f"{one.stage}: {one.knob} = {one.setting}" for one in tried)
    count = counted(len(tried), "change")
    echo(
        f"--retrain: the recipe as it is, then {count} as far as {minutes:g} minutes go ({changes})", err=True
    )
