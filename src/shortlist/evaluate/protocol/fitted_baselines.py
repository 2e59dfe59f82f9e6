"""The baselines of an evaluation: counted ones, those stored in bundles, and models that are fitted on the spot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.protocol.baselines import baselines
from shortlist.pipeline import Recommender
from shortlist.progress import Progress, silent, tracked
from shortlist.train.models.counting.ease import MAX_ITEMS, EASETrainer
from shortlist.train.models.counting.item_knn import ItemKNNTrainer
from shortlist.train.models.trainer import ModelTrainer

CHOICES = ("auto", "all", "counts")
EASE, ITEM_KNN = "ease", "item-knn"
FITTED: Mapping[str, ModelTrainer] = {EASE: EASETrainer(), ITEM_KNN: ItemKNNTrainer()}
FEW_ITEMS = 2_000  # a catalogue of at most so many is fitted and ranked in seconds
FEW_PAIRS = 1 << 28  # pairs of items with a common user, counted once per user
COUNTED = "counted over the training events only, items of the history left out"


@dataclass(frozen=True, eq=False)
class Baselines:
    """Slates [C, k] of every baseline, popularity first, and where they come from."""

    slates: Mapping[str, Tensor]
    rule: str  # for the protocol


def check_choice(choice: str) -> str:
    """Refuse a choice of baselines that does not exist."""
    if choice not in CHOICES:
        raise ConfigError(f"--baselines: expected auto, all or counts, got {choice!r}")
    return choice


def collect_baselines(
    bundles: Sequence[Recommender],
    held_out: HeldOut,
    train: Interactions,
    on: str,
    k: int,
    clock: str = "ms",
    choice: str = "auto",
    progress: Progress = silent,
) -> Baselines:
    """Counted baselines, the slates that bundles store for this part of the split, then fitted models.

    "auto" fits the models that no bundle stores where that is cheap, "all" fits them anyway, "counts" has none.
    """
    counted = baselines(held_out, train, k, clock)
    if check_choice(choice) == "counts":
        return Baselines(counted, COUNTED)
    stored = _new(stored_slates(bundles, on, len(held_out), k), counted)
    missing = {name: _reason(name, train, choice) for name in FITTED if name not in stored}
    fitted = _fitted([name for name, reason in missing.items() if not reason], held_out, train, k, progress)
    rules = [COUNTED]
    rules += [f"{', '.join(stored)}: slates that the bundle stores since training"] if stored else []
    rules += [f"{', '.join(fitted)}: fitted on the training events"] if fitted else []
    rules += [f"{name}: not fitted, {reason}" for name, reason in missing.items() if reason]
    return Baselines({**counted, **stored, **fitted}, "; ".join(rules))


def stored_slates(bundles: Sequence[Recommender], on: str, requests: int, k: int) -> dict[str, Tensor]:
    """Slates [C, k] of the baselines that bundles store; those with fewer than k places are left out."""
    found: dict[str, Tensor] = {}
    for bundle in bundles:
        for name, slates in bundle.baselines.get(on, {}).items():
            if len(slates) != requests:
                raise DataError(
                    f"{bundle.about.name}: its baseline {name} has slates of {len(slates)} requests, the split has "
                    f"{requests}; train again with: shortlist train"
                )
            if slates.shape[1] >= k:
                found.setdefault(name, slates[:, :k])
    return found


def _new(stored: Mapping[str, Tensor], counted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The stored slates without those of the counted baselines."""
    return {
        name: slates
        for name, slates in stored.items()
        if name.replace("-", " ") not in counted
        and not any(torch.equal(slates, own) for own in counted.values())
    }


def _reason(name: str, train: Interactions, choice: str) -> str:
    """Why a model is not fitted on these events; empty where it is."""
    if name == EASE and train.n_items > MAX_ITEMS:
        return f"the catalogue has {train.n_items:,} items, more than {MAX_ITEMS:,}"
    if choice == "all":
        return ""
    pairs = int(np.square(train.lengths.astype(np.int64)).sum())
    if train.n_items <= FEW_ITEMS and pairs <= FEW_PAIRS:
        return ""
    return f"the log is large ({train.n_items:,} items, {pairs:,} pairs of items); --baselines all fits it"


def _fitted(
    names: Sequence[str], held_out: HeldOut, train: Interactions, k: int, progress: Progress
) -> dict[str, Tensor]:
    """Slates of models fitted on the training events, items of the history left out."""
    return {
        name: _ranked(FITTED[name], held_out, train, k) for name in tracked(names, "fit baselines", progress)
    }


def _ranked(trainer: ModelTrainer, held_out: HeldOut, train: Interactions, k: int) -> Tensor:
    places = min(k, train.n_items)
    return pad(rank_model(trainer.learn(train), held_out, places), (0, k - places), value=-1)
