"""shortlist reproduce: run an experiment and write its result as data, page and drawing."""

import inspect
import json as words
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.as_json import as_json
from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes, progress, write_whole
from shortlist.errors import ConfigError, DataError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.render import claims_page, result_drawing, result_page


@errors_to_exit_codes()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}.")],
    data: Annotated[
        Path | None, typer.Option(envvar="SHORTLIST_DATA", help="The folder of real data sets.")
    ] = None,
    profile: Annotated[str, typer.Option(help="quick or full.")] = "quick",
    runs: Annotated[int, typer.Option(min=1, max=100, help="How many seeds.")] = 3,
    out: Annotated[Path, typer.Option(help="The folder of results.")] = Path("results"),
    keep: Annotated[
        Path | None, typer.Option(help="A file of answers: a long experiment goes on where it stopped.")
    ] = None,
    take: Annotated[
        list[Path] | None,
        typer.Option(
            help="More files of answers, of runs with other seeds, to take into that of --keep first."
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run an experiment; what it should show is told with whether it did."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"reproduce: expected one of {', '.join(EXPERIMENTS)}, got {name!r}")
    _joined(keep, take or [])
    with progress() as tell:
        more = {"keep": keep} if _keeps(name, keep) else {}
        told = as_json(EXPERIMENTS[name](data, profile, range(seed, seed + runs), tell, **more))
    file = name if profile == "full" else f"{name}-{profile}"  # a quick run never hides a full one
    write_whole(out / f"{file}.json", words.dumps(told, indent=1, allow_nan=False) + "\n")
    write_whole(out / f"{file}.md", result_page(told))
    write_whole(out / f"{file}.svg", result_drawing(told))
    write_whole(out / "README.md", claims_page(out))
    if json:
        emit(told)
        return
    for one in told["claims"]:
        typer.echo(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['id']}: {one['estimate']:.4f} ({one['note']})"
        )
    typer.echo(f"written to {out / file}.json, .md and .svg")


def _joined(keep: Path | None, take: Sequence[Path]) -> None:
    """Other files of answers, taken into the one to keep."""
    if take and keep is None:
        raise ConfigError("reproduce: --take needs --keep, the file to take answers into")
    for path in take:
        if not path.exists():
            raise DataError(f"{path}: expected a file of answers, got none")
    if take:
        Kept.at(keep).take([Kept.at(path) for path in take])


def _keeps(name: str, keep: Path | None) -> bool:
    if keep is not None and "keep" not in inspect.signature(EXPERIMENTS[name]).parameters:
        raise ConfigError(f"reproduce {name}: it is too short to keep answers; leave --keep out")
    return keep is not None
