"""Facts of a log, its split and the machine, which a plan depends on."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shortlist.data import Dataset, Interactions, Split
from shortlist.errors import DataError
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.train.auto.sizes import history_length
from shortlist.train.preparation.memory import available_memory
from shortlist.train.rankers.training_data.out_of_fold import OutOfFoldConfig, out_of_fold_data

MOST_REQUESTS = 20_000  # the default of [train] requests


@dataclass(frozen=True)
class LogProfile:
    """Sizes of the training part of a log, what can be measured on it, and what the machine has."""

    items: int  # of the catalogue
    events: int  # of the training part
    histories: int  # users with two or more training events
    length: int  # items of a history that a sequence model should read
    timed: bool  # False: the log has only the order of events
    protocol: str
    repeats: float  # share of the training events whose item the user had before
    rankable: int  # training requests for rankers
    validation: int  # requests
    test: int  # requests
    categories: int
    columns: tuple[str, ...]  # of the catalogue, that rankers use as features
    gpu: bool
    cores: int
    memory: int | None  # bytes that can be allocated; None: unknown
    lightgbm: bool

    @property
    def machine(self) -> str:
        """The machine in words."""
        return "a GPU" if self.gpu else f"{self.cores} core{'s' if self.cores > 1 else ''} without a GPU"


def log_profile(dataset: Dataset, split: Split) -> LogProfile:
    """The profile of a data set under a split, on this machine."""
    train = split.train
    return LogProfile(
        items=train.n_items,
        events=len(train),
        length=history_length(train.lengths),
        histories=int(np.count_nonzero(train.lengths > 1)),
        timed=dataset.clock == "ms",
        protocol=str(split.settings["protocol"]),
        repeats=1.0 - _pairs(train) / max(len(train), 1),
        rankable=_rankable(train, split.settings),
        validation=len(split.valid),
        test=len(split.test),
        categories=len(dataset.catalog.categories),
        columns=CatalogColumns.of(dataset.catalog, train.popularity > 0).names,
        gpu=torch.cuda.is_available(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=available_memory(torch.device("cpu")),
        lightgbm=importlib.util.find_spec("lightgbm") is not None,
    )


def _pairs(events: Interactions) -> int:
    """Distinct pairs of a user and an item."""
    return len(np.unique(events.users.astype(np.int64) * max(events.n_items, 1) + events.items))


def _rankable(train: Interactions, settings: Mapping[str, Any]) -> int:
    """Training requests for rankers, counted as the training of a pipeline makes them."""
    try:
        others = OutOfFoldConfig().from_others(settings)
        return len(out_of_fold_data(train, settings, 0, MOST_REQUESTS, several=others).every)
    except DataError:
        return 0
