"""Cells of a table of systems: one data set, protocol, system and seed, trained and measured on its test requests."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.data import Dataset, HeldOut, Interactions
from shortlist.data.dataset import order_ties
from shortlist.data.read import read
from shortlist.errors import ConfigError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.grammar import Pipeline, Scorer, leaves
from shortlist.lab.experiments.models.baselines import quick
from shortlist.lab.experiments.trees.trial import settings_without_device, training_facts
from shortlist.pipeline import Recommender, shipped_recipe
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recipe import Recipe, StageConfig
from shortlist.simulate import amazon_like, embedded, power_law, with_repeats
from shortlist.train import train
from shortlist.train.auto.sizes import WIDE, history_length, sizes
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer

METRICS = ("recall@20", "recall@10", "ndcg@10")
DEPTH = 20  # items of a slate
AUTO, CLASSIC = "auto", "classic"
MINUTES, QUICK_MINUTES = 8.0, 0.1  # budget of `auto`
HASHED = ", hashed ties"  # after the name of a protocol

# The same for every model that is trained in epochs; BERT4Rec sees a fifth of the targets per epoch.
LOOP: Mapping[str, Any] = {
    "epochs": 60,
    "patience": 5,
    "early_stop_metric": "recall@20",
    "validation_users": 2000,
}
LONGER: Mapping[str, Any] = {**LOOP, "epochs": 150, "patience": 12}
REPEAT = "repeat"  # the items of the history, recent and frequent ones first
COUNTED = ("ease", "item-knn", "last-click")  # the same with every seed on the same split
MODELS = (
    *COUNTED,
    *("sasrec", "gru4rec", "two-time-scale", "two-tower", "mf", "ccf", "lightgcn"),
    *("fmlp", "youtube-dnn", "sum-pooling", "bert4rec", "din"),
)
ONE_SEED = (CLASSIC, "fmlp", "youtube-dnn", "sum-pooling", "bert4rec", "din", "dtr-t", "tdm")
SIZED = (
    "fmlp",
    "youtube-dnn",
    "sum-pooling",
    "bert4rec",
    *WIDE,
)  # they read as much of a history as in `auto`
BOTH_HORIZONS = ("sasrec", "gru4rec")  # also run without a chosen horizon
NEXT = ", next item"  # after the name of a model that predicts the next item, without a chosen horizon
TREES = ("dtr-t", "tdm")  # run with one seed, and only where `--only` names them
RECIPES = (CLASSIC, REPEAT, *TREES)
CHOSEN = 0  # value of `ahead` that means: chosen on validation
REAL = ("ml-1m", "mind")
REPEATS = "power-law-repeats"  # a log in which users take items again
REPEATED = 0.4  # of its events


@dataclass(frozen=True, order=True)
class Setup:
    """A data set under a protocol."""

    data: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.data}, {self.protocol}"

    @property
    def repeats(self) -> bool:
        """Whether single models may recommend items of the history."""
        return self.data == REPEATS

    @property
    def same_users(self) -> bool:
        """Whether the test users are the same for every seed: the log is a file and the split is not random."""
        return self.data in REAL and not self.protocol.startswith("half-history")


@dataclass(frozen=True, order=True)
class Cell:
    """One system on one setup with one seed."""

    setup: Setup
    system: str
    seed: int

    def __str__(self) -> str:
        return f"{self.setup.data}/{self.setup.protocol}/{self.system}/{self.seed}"


def systems_of(setup: Setup) -> tuple[str, ...]:
    """`auto`, `classic` and the single models; two of them with both label horizons where a request has many items.

    Where users take items again, items of the history are a system too.
    With leave-last-out a request has one relevant item, so the next item is the only horizon.
    """
    horizons = () if setup.protocol.startswith("leave-last-out") else BOTH_HORIZONS
    repeat = (REPEAT,) if setup.repeats else ()
    return (AUTO, CLASSIC, *repeat, *MODELS, *(f"{name}{NEXT}" for name in horizons))


def seeds_of(setup: Setup, system: str, seeds: Sequence[int]) -> Sequence[int]:
    """The seeds of a system: the first one for counts on the same split, models that are no candidates for `auto`, and
    the next item."""
    once = is_counted(setup, system) or system in ONE_SEED or system.endswith(NEXT)
    return seeds[:1] if once else seeds


def is_counted(setup: Setup, system: str) -> bool:
    """Whether a system is the same with every seed."""
    return system in COUNTED and setup.same_users


def cells_of(setups: Sequence[Setup], systems: Sequence[str], seeds: Sequence[int]) -> Iterator[Cell]:
    """All cells of a table of some systems, or of all without any."""
    for setup in setups:
        for system in systems or systems_of(setup):
            yield from (Cell(setup, system, seed) for seed in seeds_of(setup, system, seeds))


def trainer_for(system: str, is_quick: bool = False) -> ModelTrainer:
    """The trainer of a single model: its defaults, with the same stopping rule and label horizon as all others."""
    name = system.removesuffix(NEXT)
    trainer: ModelTrainer = make_trainer(name)
    chosen = {**(LONGER if name == "bert4rec" else LOOP), "ahead": 1 if system.endswith(NEXT) else CHOSEN}
    known = trainer.settings()
    trainer = trainer.with_settings(**{key: value for key, value in chosen.items() if key in known})
    return quick(trainer) if is_quick and name not in COUNTED else trainer


def sized(trainer: ModelTrainer, system: str, events: Interactions) -> ModelTrainer:
    """The trainer of a sequence model with the sizes that `auto` would try first on these events."""
    name = system.removesuffix(NEXT)
    if name not in SIZED:
        return trainer
    length = history_length(events.lengths)
    gpu = torch.cuda.is_available()
    chosen = sizes(name, len(events), length, gpu)[0] if name in WIDE else {"max_history": length}
    return trainer.with_settings(**chosen)


def settings_for(system: str, is_quick: bool = False) -> dict[str, Any]:
    """What decides how a system is trained, for the record and for the check of a cache.

    Sequence models have the sizes that `auto` would try first on their log.
    """
    if system == AUTO:
        return {"minutes": QUICK_MINUTES if is_quick else MINUTES}
    if system in RECIPES:
        return {"recipe": system}
    sized = {"size": "of auto"} if system.removesuffix(NEXT) in SIZED else {}
    return {**settings_without_device(trainer_for(system, is_quick)), **sized}


def run_cell(cell: Cell, folder: Path | None, is_quick: bool = False) -> tuple[Tensor, dict[str, Any]]:
    """The metrics of every test request [metrics, C], and facts about the training."""
    dataset = dataset_of(cell.setup, cell.seed, folder, is_quick)
    work = _composed if cell.system in (AUTO, *RECIPES) else _single
    began = time.perf_counter()
    ranked, facts = work(cell, dataset, is_quick, lambda: time.perf_counter() - began)
    test = dataset.split().test
    scores = score_slates(ranked, test.relevant(), (10, 20))
    return torch.stack([scores[metric] for metric in METRICS]), facts


Clock = Callable[[], float]


def _single(cell: Cell, dataset: Dataset, is_quick: bool, clock: Clock) -> tuple[Tensor, dict[str, Any]]:
    """A model that ranks the whole catalogue without items of the history."""
    split = dataset.split()
    trainer = sized(trainer_for(cell.system, is_quick), cell.system, split.train)
    model = trainer.learn(split.train, split.valid, cell.seed, catalog=dataset.catalog)
    facts = training_facts(trainer, model.validation, clock())
    return rank_model(model, split.test, DEPTH, repeats=cell.setup.repeats), facts


def _composed(cell: Cell, dataset: Dataset, is_quick: bool, clock: Clock) -> tuple[Tensor, dict[str, Any]]:
    """A pipeline, trained as `shortlist train --no-refit` trains it."""
    if cell.system == AUTO:
        minutes = QUICK_MINUTES if is_quick else MINUTES
        trained = train(AUTO, dataset, seed=cell.seed, refit=False, minutes=minutes)
    else:
        recipe = _recipe(cell.system, dataset)
        trained = train(recipe, dataset, seed=cell.seed, refit=False)
    facts = {"seconds": clock(), **_plan_facts(trained)}
    return answers(trained.pipeline, dataset.split().test), facts


def _recipe(system: str, dataset: Dataset) -> Recipe:
    if system == REPEAT:
        return Recipe(REPEAT, f"{REPEAT} % {DEPTH}", {REPEAT: StageConfig(REPEAT)})
    return classic_for(dataset) if system == CLASSIC else shipped_recipe(system)


def classic_for(dataset: Dataset) -> Recipe:
    """The classic recipe, or the same without times for a log that has none."""
    return shipped_recipe(CLASSIC if dataset.clock == "ms" else "untimed")


def answers(pipeline: Pipeline, requests: HeldOut) -> Tensor:
    """The slates of all requests [C, DEPTH]."""
    return slates_of(offline(pipeline), requests, DEPTH)


def _plan_facts(trained: Recommender) -> dict[str, Any]:
    """The pipeline, why it was composed, and whether a single model was saved instead."""
    ranked = any(isinstance(leaf, Scorer) for stage in trained.pipeline.stages for leaf in leaves(stage))
    single = len(trained.pipeline.nominators) == 1 and not ranked
    return {"pipeline": repr(trained.pipeline), "single": single, "plan": as_json(trained.about.plan)}


def dataset_of(setup: Setup, seed: int, folder: Path | None, is_quick: bool = False) -> Dataset:
    """The log of a setup, with its split; a simulated log is another one for every seed."""
    world = 0 if setup.data in REAL else seed
    dataset = _log(setup.data, world, folder, "small" if is_quick else "full")
    if setup.protocol.endswith(HASHED):
        dataset = order_ties(dataset, "hash")
    protocol = setup.protocol.removesuffix(HASHED)
    own_seed = {"seed": seed} if protocol == "half-history" else {}
    return replace(dataset, split_settings={"protocol": protocol, **own_seed})


@lru_cache(maxsize=16)
def _log(name: str, seed: int, folder: Path | None, size: str) -> Dataset:
    if name in REAL:
        if folder is None:
            raise ConfigError(f"{name}: the full profile needs --data, a folder that holds {name}")
        source = ("ml-1m/ml-1m.zip", "movielens") if name == "ml-1m" else ("mind", "dtr")
        return read(folder / source[0], source[1], name=name)
    if name == "demo":
        return embedded(seed, "demo" if size == "full" else size)
    if name == REPEATS:
        return with_repeats(power_law(seed, size), REPEATED, seed)
    return amazon_like(seed, size) if name == "amazon-like" else power_law(seed, size)
