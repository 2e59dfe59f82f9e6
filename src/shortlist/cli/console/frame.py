"""What every verb shares: JSON output, errors as exit codes, progress bars."""

import errno
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import check_writable
from shortlist.cli import INTERRUPTED, STOPPED
from shortlist.cli.console.output import echo
from shortlist.cli.console.progress_lines import ProgressLines
from shortlist.errors import CONTROLS, ConfigError, ShortlistError, visible
from shortlist.progress import Progress, silent

Bundle = Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")]
PreparedData = Annotated[Path, typer.Option(help="A folder made by `shortlist data prepare`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe, such as stages.sasrec.train.epochs=20; repeatable.",
    ),
]

REMEDIES = {
    errno.ENOSPC: "free space on this disk, or choose a path on another one",
    errno.EDQUOT: "free space in your quota, or choose a path on another disk",
    errno.EROFS: "the disk is read-only; choose a path on another one",
    errno.EACCES: "choose a path for which you have the permission, or change it with chmod",
}
"""What to do about an error of the operating system."""

DELAY = 2.0  # seconds of work before a bar appears
QUIET = "SHORTLIST_QUIET"  # environment variable: no progress


@contextmanager
def errors_to_exit_codes() -> Iterator[None]:
    """Decorator or context: an error becomes one sentence on stderr and an exit code."""
    try:
        yield
    except ShortlistError as error:
        echo(f"error: {_sentence(error)}", err=True)
        raise typer.Exit(2) from error
    except BrokenPipeError:
        # The reader of our output has closed the pipe; what is left of it must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        echo(f"error: {where}{error.strerror or error}; {_remedy(error)}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        echo(STOPPED, err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def resumable(checkpoint_dir: Path | None) -> Iterator[None]:
    """Say on Ctrl-C which command continues the work."""
    try:
        yield
    except KeyboardInterrupt:
        echo(STOPPED, err=True)
        again = command(*sys.argv[1:])
        if checkpoint_dir is None:
            echo(f"to be able to continue later, start with: {again} --checkpoint-dir FOLDER", err=True)
        elif checkpoint_dir.exists():
            echo(f"continue from {checkpoint_dir} with the same command: {again}", err=True)
        else:
            echo(f"nothing was saved yet; start again with the same command: {again}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def command(*arguments: object, program: str = "shortlist") -> str:
    """A command of this program as it is typed in a shell."""
    return shlex.join([program, *map(str, arguments)])


@errors_to_exit_codes()
def import_plugins(plugins: Sequence[str]) -> None:
    """Import the modules and files of --plugin; a process that this one starts imports them too."""
    import_module("shortlist.pipeline.plugins").load_plugins(plugins)
    os.environ["SHORTLIST_PLUGINS"] = os.pathsep.join(plugins)


def check_file(path: Path | None, option: str) -> None:
    """Refuse a file that cannot be written before the work that fills it."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{option}: expected a file to write to, got the folder {path}; add a file name")
    check_writable(path)


def emit(answer: Any) -> None:
    """Print one JSON object on stdout; NaN and infinity become null, no character controls a terminal."""
    text = json.dumps(as_json(answer), allow_nan=False, ensure_ascii=False)
    sys.stdout.write(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    sys.stdout.flush()


@contextmanager
def progress() -> Iterator[Progress]:
    """A callback that draws bars on a terminal and writes lines elsewhere; nothing with SHORTLIST_QUIET=1."""
    console = Console(stderr=True)
    if os.environ.get(QUIET, "") not in ("", "0"):
        yield silent
        return
    if not console.is_terminal:
        yield ProgressLines(lambda line: echo(line, err=True))
        return
    with bars(console) as callback:
        yield callback


@contextmanager
def bars(console: Console, delay: float = DELAY) -> Iterator[Progress]:
    """Progress bars that appear after `delay` seconds of work."""
    display = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}
    # A timer, because one long step may report nothing for minutes.
    timer = Timer(delay, display.start)
    timer.daemon = True

    def update(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = display.add_task(visible(what), total=total)
        display.update(tasks[what], completed=done, total=total)

    try:
        timer.start()
        yield update
    finally:
        timer.cancel()
        timer.join()
        display.stop()


def _remedy(error: OSError) -> str:
    return REMEDIES.get(error.errno or 0, "choose a path that can be read and written")


def _sentence(error: ShortlistError) -> str:
    return " ".join(str(error).split())
