"""shortlist refresh: new events into a bundle."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console.frame import Bundle, Json, command, emit, errors_to_exit_codes, progress, resumable
from shortlist.cli.console.output import echo
from shortlist.pipeline.about import Refresh
from shortlist.train.renewal.refresh import refresh as refresh_bundle


@errors_to_exit_codes()
def refresh(
    bundle: Bundle,
    data: Annotated[
        Path, typer.Option(help="The data set with the new events, from `shortlist data append`.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the new bundle. Default: replace the old one.")
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Train the recipe again; keep the result only if it is not worse."),
    ] = False,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints of --retrain; the same command resumes from there."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**63 - 1, help="Random seed of --retrain. Default: that of the bundle."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle that exists at --out.")] = False,
    json: Json = False,
) -> None:
    """Put new events into histories and counts without training, or train again and keep what is not worse."""
    began = time.perf_counter()
    with resumable(checkpoint_dir) if retrain else nullcontext(), progress() as show:
        done = refresh_bundle(
            bundle,
            data,
            out,
            retrain=retrain,
            checkpoint_dir=checkpoint_dir,
            seed=seed,
            force=force,
            progress=show,
        )
    seconds, target, about = time.perf_counter() - began, out or bundle, done.bundle.about
    if json:
        comparison = done.comparison
        emit(
            {
                "bundle": target,
                "seconds": seconds,
                "kept": done.kept,
                "comparison": comparison,
                "about": about,
            }
        )
    else:
        if done.comparison is not None:
            echo(str(done.comparison))
        elif about.refresh is not None:
            for line in _lines(about.refresh, bundle, data):
                echo(line)
        echo(f"written to {target} in {seconds:.1f} s" if done.kept else f"{bundle} was not changed")
    if not done.kept:
        raise typer.Exit(1)


def _lines(done: Refresh, bundle: Path, data: Path) -> list[str]:
    """What changed, and what only training can add."""
    lines = [
        f"{done.events:,} events of {done.users:,} users in the histories; new users: {done.new_users:,}",
        f"fitted again or with new counts: {', '.join(done.stages) or 'no stage'}; other stages keep their weights",
    ]
    if done.left_out:
        lines.append(
            f"events left out: {done.left_out:,}; items that the bundle does not know: {done.unknown_items:,}; "
            f"to include them: {command('refresh', bundle, '--data', data, '--retrain')}"
        )
    return lines
