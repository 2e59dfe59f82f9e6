"""What all trainers of models share: events in, a model out; in a pipeline, a nominator that asks the model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.data import HeldOut, Interactions
from shortlist.index.registry import index_type
from shortlist.models.model import Model
from shortlist.nominate import ModelNominator
from shortlist.progress import Progress, silent
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import course

Watch = Callable[[float], None]
"""Hears every judgement of a training, as it is made."""


def unwatched(_: float) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class ModelTrainer(ABC):
    """Makes a model from events; its fields are the sizes of the model and how it learns."""

    @abstractmethod
    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> Model:
        """A model that knows these events, on the device it learned on; `valid` says when to stop."""

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> ModelNominator:
        """A nominator that names what the model scores best."""
        index_type(str(settings.get("index", "exact")))  # an index that cannot be had is told before the work
        model = self.learn(context.events, context.valid, context.seed, context.progress)
        most, patience = getattr(self, "epochs", 0), getattr(self, "patience", 0)
        if most:  # one that learns in epochs, not by counting
            context.note(str(settings.get("name", "model")), course(model.judged, most, patience))
        return ModelNominator(model.cpu(), **settings)
