"""shortlist reproduce: run an experiment and write its result as data, page and drawing."""

import inspect
import json as words
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, doors, emit, plain, progress, write_whole
from shortlist.errors import ConfigError
from shortlist.report.results import claims_page, result_drawing, result_page
from shortlist.reproduce import EXPERIMENTS


@doors()
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
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run an experiment; what it should show is told with whether it did."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"reproduce: expected one of {', '.join(EXPERIMENTS)}, got {name!r}")
    with progress() as tell:
        more = {"keep": keep} if _keeps(name, keep) else {}
        told = plain(EXPERIMENTS[name](data, profile, range(seed, seed + runs), tell, **more))
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


def _keeps(name: str, keep: Path | None) -> bool:
    if keep is not None and "keep" not in inspect.signature(EXPERIMENTS[name]).parameters:
        raise ConfigError(f"reproduce {name}: it is too short to keep answers; leave --keep out")
    return keep is not None
