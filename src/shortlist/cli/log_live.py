"""shortlist log live: the events that a service keeps, as a table, and a log of the later ones."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.artifact.os_errors import errors_name
from shortlist.cli.console.frame import Json, emit, errors_to_exit_codes
from shortlist.cli.console.output import echo
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline.batch.formats import FORMATS, format_of
from shortlist.pipeline.batch.write import check_output
from shortlist.pipeline.bundle import load_recommender
from shortlist.pipeline.live.states import since_ms
from shortlist.state import EventLog, event_table, trim_log
from shortlist.state.events.archive import EVENTS


@errors_to_exit_codes()
def live_command(
    states: Annotated[Path, typer.Argument(help="Folder of `serve --state`; the service must be stopped.")],
    out: Annotated[
        Path | None, typer.Option(help=f"Write user, item and time of all events: {', '.join(FORMATS)}.")
    ] = None,
    trim: Annotated[
        Path | None,
        typer.Option(help="New folder for `serve --state`, without the events that --bundle has."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Bundle that was trained or refreshed with the events.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at --out.")] = False,
    json: Json = False,
) -> None:
    """Write the live events of a service as a table for `data append`, and leave those of a bundle out of its log."""
    if (out, trim) == (None, None):
        raise ConfigError("log live: expected --out FILE, --trim FOLDER or both, got neither")
    if (trim is None) != (bundle is None):
        raise ConfigError("log live: --trim and --bundle go together: the bundle says which events it has")
    folder = states / EVENTS
    if not folder.is_dir():
        raise DataError(
            f"{states}: expected the folder of `shortlist serve --state`, with a folder {EVENTS!r} in it"
        )
    found: dict[str, Any] = {}
    if out is not None:
        found["written"] = _write(folder, out, force)
    if trim is not None and bundle is not None:
        found["left_out"] = trim_log(folder, trim / EVENTS, since_ms(load_recommender(bundle)))
    if json:
        emit(found)
        return
    if out is not None:
        echo(f"{found['written']:,} events written to {out}")
    if trim is not None:
        echo(f"{found['left_out']:,} events left out of {trim}; the log in {states} is as before")


def _write(folder: Path, out: Path, force: bool) -> int:
    """Write the events of a log as a table, whole or not at all; how many."""
    check_output(out, force)
    with EventLog(folder) as log:
        table = event_table(log)
    draft = out.with_name(f".{out.name}.{os.getpid()}.new")
    with errors_name(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            format_of(out)(draft, table.schema, table.to_batches())
            draft.replace(out)
        finally:
            draft.unlink(missing_ok=True)
    return len(table)
