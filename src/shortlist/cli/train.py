"""shortlist train: from a recipe and a prepared data set to a bundle that can be served."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from shortlist import __version__
from shortlist.artifact import Artifact, Lineage
from shortlist.cli.frame import Json, Seed, doors, emit, progress
from shortlist.data import Dataset, load_dataset
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError
from shortlist.pipeline import Recipe, Recommender, find_recipe, save_recommender, to_toml
from shortlist.pipeline.shipped import shipped_names
from shortlist.progress import Progress
from shortlist.staging import check_target
from shortlist.train import train as fit


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


def spoken(split: Mapping[str, Any]) -> str:
    """The settings of a split in words."""
    chosen = ", ".join(f"{name} {value}" for name, value in split.items() if name != "protocol")
    return f"{split['protocol']} ({chosen})"


def unfinished(about: Mapping[str, Any]) -> list[str]:
    """The stages of a bundle whose epochs ran out while their judge was still pleased."""
    return [name for name, one in about.get("training", {}).items() if one["converged"] is False]


def warned(about: Mapping[str, Any]) -> list[str]:
    """What trainers warned of, stage by stage."""
    return [one for went in about.get("training", {}).values() for one in went.get("warnings", [])]


def train_bundle(
    recipe: Recipe,
    dataset: Dataset,
    out: Path,
    seed: int,
    tell: Progress,
    force: bool = False,
    keep: Path | None = None,
    protocol: str | None = None,
) -> tuple[Recommender, Artifact]:
    """Train and write a bundle; nothing is written unless all of it could be."""
    split = dataset.split() if protocol is None else dataset.split(protocol=protocol)
    trained = fit(recipe, dataset, seed, split, tell, keep=keep)
    about = {
        **trained.about,
        "pipeline": repr(trained.pipeline),
        "split": dict(split.settings),
        "events": len(split.train),
    }
    trained = replace(trained, about=about)
    lineage = Lineage(
        dataset.fingerprint,
        seed,
        __version__,
        {"recipe": to_toml(recipe), "split": dict(split.settings), "threads": torch.get_num_threads()},
    )
    card = {"README.md": _card(about, dataset, seed)}
    return trained, save_recommender(trained, out, lineage, recipe, card, overwrite=force)


def _card(about: dict[str, Any], dataset: Dataset, seed: int) -> str:
    """What a person should know who finds the bundle."""
    return (
        f"# {about['name']}\n\n"
        f"A multi-stage recommender by shortlist {__version__} on {dataset.name!r}: {about['events']:,} events, "
        f"{len(dataset.users):,} users, {len(dataset.items):,} items, seed {seed}.\n\n"
        f"    {about['pipeline']}\n\n"
        f"Held out by {about['split']}. `recipe.toml` is what it was made from, `pipeline.toml` what it is.\n\n"
        "Answer a request with `shortlist recommend`, follow an item with `shortlist explain`.\n"
    )
