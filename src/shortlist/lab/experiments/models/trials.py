"""Models on one split, all asked the same users: trained once, their answers kept."""

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
from shortlist.models.model import Model
from shortlist.progress import Progress, silent
from shortlist.train.jtr import JTRTrainer
from shortlist.train.models.trainer import ModelTrainer

DEPTH = 100  # items kept of every answer


@dataclass(frozen=True, eq=False)
class Course:
    """One data set, one split, one seed; `protocol` is that of the split."""

    name: str
    dataset: Dataset
    seed: int
    protocol: Mapping[str, Any]
    cache: AnswerCache = field(default_factory=AnswerCache)
    progress: Progress = silent
    ks: Sequence[int] = (10, 20)
    models: dict[str, Model] = field(default_factory=dict)  # those that learned here

    @cached_property
    def split(self) -> Split:
        return self.dataset.split(**self.protocol)

    @cached_property
    def truth(self) -> Tensor:
        return self.split.test.relevant()

    def scores(self, name: str, trainer: ModelTrainer) -> Scores:
        """A model's scores on the test users, what was seen left out."""
        items, _ = self.cache.get(
            self._place(name), lambda: self._answer(name, trainer), settings_of(trainer)
        )
        if items.shape != (len(self.split.test), self._depth):
            raise ArtifactError(
                f"{self.cache.path}: {self._place(name)!r} was kept by an experiment that asks other users; name "
                "another file"
            )
        return score_slates(items.to(torch.int64), self.truth, self.ks)

    def facts(self, name: str) -> dict[str, Any]:
        """What was told of a model's training: its seconds, and what the judge said when."""
        return dict(self.cache.facts[self._place(name)])

    def short_training(self, name: str, trainer: ModelTrainer) -> tuple[Model, dict[str, Any]]:
        """A model, and what is to be told of its training; the clock starts with the first look at the events."""
        began = time.perf_counter()
        told: list[list[float]] = []
        model = trainer.learn(
            self.split.train,
            self.split.valid,
            self.seed,
            self.progress,
            lambda value: told.append([time.perf_counter() - began, value]),
        )
        seconds = time.perf_counter() - began
        self.models[name] = model
        return model, {"seconds": seconds, "judged": told, "kind": type(trainer).__name__}

    def _answer(self, name: str, trainer: ModelTrainer) -> tuple[Tensor, dict[str, Any]]:
        model, facts = self.short_training(name, trainer)
        return rank_model(model, self.split.test, self._depth).to(torch.int32), facts

    @property
    def _depth(self) -> int:
        return min(DEPTH, len(self.dataset.items))

    def _place(self, name: str) -> str:
        return f"{self.name}/{name}/{self.seed}"


def settings_of(trainer: ModelTrainer | JTRTrainer) -> dict[str, Any]:
    """All choices of a trainer that decide what it makes."""
    return {name: value for name, value in trainer.settings().items() if name != "device"}
