"""Models on one split, all evaluated on the same users: trained once, their answers cached."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Dataset, Split
from shortlist.errors import ArtifactError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.trial import settings_without_device, training_facts
from shortlist.models.model import Model
from shortlist.progress import Progress, silent
from shortlist.train.models.trainer import ModelTrainer

DEPTH = 100  # items of every answer in the cache


@dataclass(frozen=True, eq=False)
class ModelTrial:
    """One data set, one split, one seed; `protocol` holds the settings of the split."""

    name: str
    dataset: Dataset
    seed: int
    protocol: Mapping[str, Any]
    cache: AnswerCache = field(default_factory=AnswerCache)
    progress: Progress = silent
    ks: Sequence[int] = (10, 20)

    @cached_property
    def split(self) -> Split:
        return self.dataset.split(**self.protocol)

    @cached_property
    def relevant(self) -> Tensor:
        return self.split.test.relevant()

    def scores(self, name: str, trainer: ModelTrainer) -> Scores:
        """A model's scores on the test users, items of the history excluded."""
        key, settings = self._key(name), settings_without_device(trainer)
        items, _ = self.cache.get(key, lambda: self._answer(trainer), settings)
        if items.shape != (len(self.split.test), self._depth):
            raise ArtifactError(
                f"{self.cache.path}: {key!r} was cached by an experiment on other users; use another file"
            )
        return score_slates(items.to(torch.int64), self.relevant, self.ks)

    def facts(self, name: str) -> dict[str, Any]:
        """Facts about a model's training: its seconds, its history, and the validation metric at each second."""
        return dict(self.cache.facts[self._key(name)])

    def train(self, trainer: ModelTrainer) -> tuple[Model, dict[str, Any]]:
        """A model and facts about its training; the clock starts when the events are first read."""
        began = time.perf_counter()
        curve: list[list[float]] = []
        model = trainer.learn(
            self.split.train,
            self.split.valid,
            self.seed,
            self.progress,
            lambda value: curve.append([time.perf_counter() - began, value]),
        )
        facts = training_facts(trainer, model.validation, time.perf_counter() - began)
        return model, {**facts, "curve": curve, "trainer": type(trainer).__name__}

    def _answer(self, trainer: ModelTrainer) -> tuple[Tensor, dict[str, Any]]:
        model, facts = self.train(trainer)
        return rank_model(model, self.split.test, self._depth).to(torch.int32), facts

    @property
    def _depth(self) -> int:
        return min(DEPTH, len(self.dataset.items))

    def _key(self, name: str) -> str:
        return f"{self.name}/{name}/{self.seed}"
