"""shortlist train: from a recipe and a prepared data set to a bundle that can be served."""

import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.staging import check_target
from shortlist.cli.frame import Json, Seed, doors, emit, progress
from shortlist.data import load_dataset
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError
from shortlist.pipeline import find_recipe
from shortlist.pipeline.shipped import shipped_names
from shortlist.train.bundle import spoken, train_bundle, unfinished, warned


@doors()
def train(
    recipe: Annotated[
        Path,
        typer.Argument(help=f"A pipeline in TOML, or one that comes along: {', '.join(shipped_names())}."),
    ],
    data: Annotated[Path, typer.Option(help="A folder made by `shortlist data prepare`.")],
    out: Annotated[Path, typer.Option(help="The folder to write the trained bundle to.")],
    protocol: Annotated[
        str | None,
        typer.Option(
            help=f"How cases are held out: {', '.join(PROTOCOLS)}; without it, as the data set says."
        ),
    ] = None,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle that is already there.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="A folder where trees keep how far their training is; the same command goes on from there."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train every stage of a pipeline on what the stages before it pass on."""
    began = time.perf_counter()
    read = find_recipe(recipe)
    check_target(out, force)  # before the work, not after it
    _check_keep(keep, out)
    _check_protocol(protocol)
    dataset = load_dataset(data)
    with progress() as tell:
        artifact = train_bundle(read, dataset, out, seed, tell, force, keep, protocol)[1]
    seconds = time.perf_counter() - began
    if json:
        emit(
            {
                "bundle": str(out),
                "version": artifact.version,
                "seconds": seconds,
                "pipeline": artifact.about["pipeline"],
                "split": artifact.about["split"],
                "training": artifact.about["training"],
            }
        )
        return
    typer.echo(f"{artifact.about['name']} {artifact.version}: {artifact.about['pipeline']}")
    for name in unfinished(artifact.about):
        typer.echo(f"{name}: was best at the end of its training; more epochs may make it better")
    for warning in warned(artifact.about):
        typer.echo(f"warning: {warning}")
    typer.echo(f"held out by {spoken(artifact.about['split'])}")
    typer.echo(f"written to {out} in {seconds:.0f} s; next: shortlist evaluate {out} --data {data}")


def _check_keep(keep: Path | None, out: Path) -> None:
    if keep is None:
        return
    if keep.exists() and not keep.is_dir():
        raise ConfigError(f"{keep}: is no folder; expected one to keep trainings in")
    if keep.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{keep}: lies in {out}, where the bundle goes; keep trainings in another folder")


def _check_protocol(protocol: str | None) -> None:
    if protocol is not None and protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
