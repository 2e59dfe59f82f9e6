"""shortlist train: from a prepared data set to a bundle that can be served."""

import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console.frame import (
    Json,
    PreparedData,
    Seed,
    Settings,
    command,
    emit,
    errors_to_exit_codes,
    progress,
    resumable,
)
from shortlist.cli.console.output import echo
from shortlist.cli.console.plan_tables import show_plan_report
from shortlist.cli.console.protocol import Protocol
from shortlist.pipeline.recipe_settings import parse_settings
from shortlist.pipeline.shipped import shipped_names
from shortlist.train.auto.plan import MINUTES
from shortlist.train.bundle import AUTO, describe_training
from shortlist.train.bundle import train as train_bundle


@errors_to_exit_codes()
def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="auto composes a pipeline for the data, as `shortlist plan` shows it. Or a recipe in TOML, or a "
            f"shipped one: {', '.join(shipped_names())}."
        ),
    ] = Path(AUTO),
    *,
    data: PreparedData,
    out: Annotated[Path, typer.Option(help="Folder for the trained bundle.")],
    minutes: Annotated[
        float | None,
        typer.Option(help=f"Time budget of auto; {MINUTES:g} if not given.", show_default=False),
    ] = None,
    settings: Settings = None,
    protocol: Protocol = None,
    seed: Seed = 0,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Fit every stage again on all events at the end, or serve the pipeline that was measured.",
        ),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle that exists.")] = False,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints of long trainings; the same command resumes from there."),
    ] = None,
    from_log: Annotated[
        Path | None,
        typer.Option(
            help="Full-stage log of this pipeline, with labels: stages that can learn from it do, others from --data."
        ),
    ] = None,
    label_rule: Annotated[
        int | None, typer.Option(help="Version of the labels of --from-log, as `log join` prints it.")
    ] = None,
    log_since: Annotated[
        int | None, typer.Option(help="First time of requests of --from-log, in milliseconds since 1970.")
    ] = None,
    json: Json = False,
) -> None:
    """Train every stage of a pipeline on what the stages before it pass on."""
    start = time.perf_counter()
    with resumable(checkpoint_dir), progress() as show:
        bundle = train_bundle(
            recipe,
            data,
            out,
            minutes=minutes,
            settings=parse_settings(settings or []),
            protocol=protocol,
            seed=seed,
            refit=refit,
            force=force,
            checkpoint_dir=checkpoint_dir,
            from_log=from_log,
            label_rule=label_rule,
            log_since=log_since,
            progress=show,
        )
    seconds, about = time.perf_counter() - start, bundle.about
    if json:
        pipeline = repr(bundle.pipeline)
        emit({"bundle": out, "seconds": seconds, "pipeline": pipeline, "about": about})
        return
    echo(f"{about.name} {about.version}: {bundle.pipeline!r}")
    if about.plan is not None:
        show_plan_report(about.plan)
    for name in about.not_converged:
        echo(f"{name}: the best epoch was the last one; more epochs may improve it")
    for warning in about.warnings:
        echo(f"warning: {warning}")
    echo(describe_training(about))
    after = ("evaluate", out, "--data", data) if about.measured else ("serve", out)
    echo(f"written to {out} in {seconds:.0f} s; next: {command(*after)}")
