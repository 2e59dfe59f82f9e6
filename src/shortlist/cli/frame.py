"""What every verb of the command line shares: how it answers, how it fails, how it shows that it works."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from shortlist.artifact.as_json import as_json
from shortlist.errors import ShortlistError
from shortlist.progress import Progress, silent

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The seed of all that is drawn by lot.")]

PATIENCE = 2.0  # seconds of work before a bar appears


@contextmanager
def doors() -> Iterator[None]:
    """Around a verb, as a decorator or a block: an error becomes one sentence on stderr and an exit code."""
    try:
        yield
    except ShortlistError as error:
        typer.echo(f"error: {_sentence(error)}", err=True)
        raise typer.Exit(2) from error
    except BrokenPipeError:
        # Whoever read our output has gone; what is left of it must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(
            f"error: {where}{error.strerror or error}; choose a place that can be read and written", err=True
        )
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        typer.echo("stopped; nothing half-written was left", err=True)
        raise typer.Exit(1) from None


def emit(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; what JSON cannot say (NaN, infinity) becomes null."""
    sys.stdout.write(json.dumps(as_json(answer), allow_nan=False, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write_whole(path: Path, text: str) -> None:
    """Write a file that is either all there or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """A callback that draws bars with the time left on a terminal, and keeps still everywhere else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    with bars(console) as callback:
        yield callback


@contextmanager
def bars(console: Console, patience: float = PATIENCE) -> Iterator[Progress]:
    """Bars that appear once the work has lasted `patience` seconds."""
    drawn = Bars(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console, transient=True
    )
    tasks: dict[str, TaskID] = {}
    # A timer, not the next word from the work: one long step may say nothing for minutes.
    timer = Timer(patience, drawn.start)
    timer.daemon = True

    def tell(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = drawn.add_task(what, total=total)
        drawn.update(tasks[what], completed=done, total=total)

    try:
        timer.start()
        yield tell
    finally:
        timer.cancel()
        timer.join()
        drawn.stop()


def _sentence(error: ShortlistError) -> str:
    return " ".join(str(error).split())
