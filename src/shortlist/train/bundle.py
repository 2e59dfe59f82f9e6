"""Train a recipe and save the bundle."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from shortlist import __version__
from shortlist.artifact import Artifact, Lineage
from shortlist.data import Dataset
from shortlist.pipeline import Recipe, Recommender, save_recommender, to_toml
from shortlist.progress import Progress
from shortlist.train.pipeline import train


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
    trained = train(recipe, dataset, seed, split, tell, keep=keep)
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
