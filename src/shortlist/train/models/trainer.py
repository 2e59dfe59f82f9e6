"""Base class of trainers of models: interactions in, a model out; in a pipeline, a nominator that uses the model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.models.model import Model
from shortlist.models.registry import MODELS, model_name
from shortlist.nominate import ModelNominator
from shortlist.nominate.model import check_index
from shortlist.progress import Progress, silent
from shortlist.settings import Setting, check_fields, check_settings, settings_of
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.horizon import horizon_of

OnValidation = Callable[[float], None]
"""Is called with the validation metric after every epoch."""


def no_callback(value: float) -> None:
    """Do nothing with a validation metric."""


def strengths_on(events: Interactions, device: torch.device) -> Tensor | None:
    """The strengths of events on a device [E]; None where all weights are equal."""
    return None if events.strengths is None else torch.from_numpy(events.strengths.copy()).to(device)


def may_be_target(events: Interactions, ahead: int = 1) -> NDArray[np.bool_] | None:
    """Whether one of the next `ahead` events of the user, from each event on, is an example [E]; None: all are."""
    if events.examples is None or events.strengths is None:
        return None
    before = np.concatenate([[0], np.cumsum(events.strengths > 0)])  # examples before each position
    stops = np.minimum(np.arange(len(events)) + ahead, events.starts[events.users.astype(np.int64) + 1])
    found: NDArray[np.bool_] = before[stops] > before[:-1]
    return found


@dataclass(frozen=True)
class ModelTrainer(ABC):
    """Trains one kind of model. Its fields say how it trains; `config` holds the sizes of the model.

    `shortlist.train.registry.make_trainer("sasrec", width=32, epochs=5)` takes both kinds of settings and sorts them.
    """

    uses_weights: ClassVar[bool | None] = False  # whether `learn` follows the strengths of events
    reads_histories: ClassVar[bool] = False  # whether an event can be history only, without being an example

    model: type[Any] = field(kw_only=True)
    config: Any = field(default=None, kw_only=True)  # a `model.Config`; None means its defaults

    def __post_init__(self) -> None:
        if self.config is None:
            object.__setattr__(self, "config", self.model.Config())
        check_fields(self, self.title)

    @abstractmethod
    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> Model:
        """A model trained on these events, on the training device; `valid` is for early stopping only."""

    @property
    def title(self) -> str:
        """The name of the model in recipes, or its class name."""
        return model_name(self.model) if self.model in MODELS.values() else self.model.__name__

    def settings(self) -> dict[str, Any]:
        """All settings as plain values: those of the model and those of the training."""
        sizes = {one.name: getattr(self.config, one.name) for one in settings_of(type(self.config))}
        return sizes | {one.name: getattr(self, one.name) for one in settings_of(type(self))}

    def declared(self) -> tuple[Setting, ...]:
        """The settings of the model and of the training, in this order."""
        return (*settings_of(type(self.config)), *settings_of(type(self)))

    def with_settings(self, **settings: Any) -> Self:
        """The same trainer with some settings changed, of the model or of the training."""
        check_settings(settings, self.declared(), self.title)
        plain: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in settings.items()
        }
        sizes = {one.name for one in settings_of(type(self.config))}
        config = replace(self.config, **{name: one for name, one in plain.items() if name in sizes})
        return replace(self, config=config, **{name: one for name, one in plain.items() if name not in sizes})

    def config_for(self, events: Interactions, **sizes: int) -> Any:
        """The model's config with the sizes that come from the data."""
        return replace(self.config, n_items=events.n_items, **sizes)

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        """Refuse an index that cannot be built, and events that cannot be trained on, before anything is fitted."""
        check_index(self.model, settings)

    def learned(self, context: TrainContext, name: str = "") -> Any:
        """A model trained on the events of a context, for the stage of this name."""
        return self.learn(
            context.events, context.valid, context.seed, context.progress, catalog=context.catalog
        )

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> ModelNominator:
        """A nominator of the items with the best scores of the trained model."""
        self.check_data(settings, context)
        name = str(settings.get("name", "model"))
        trainer = self.with_settings(**self._chosen_before(name, context))
        model = trainer.learned(context, name)
        max_epochs, patience = getattr(trainer, "epochs", 0), getattr(trainer, "patience", 0)
        if max_epochs:  # closed-form and counting trainers have no epochs
            summary = getattr(model, "summary", None)
            context.note(name, history_of(model.validation, max_epochs, patience, summary))
        return ModelNominator(model.cpu(), **settings)

    def _chosen_before(self, name: str, context: TrainContext) -> dict[str, int]:
        """Epochs and label horizon that a run with validation chose for this stage."""
        epochs, ahead = context.best_epochs.get(name), horizon_of(context.warm.get(name))
        chosen = {"epochs": epochs, "ahead": ahead if getattr(self, "ahead", None) == 0 else None}
        return {key: value for key, value in chosen.items() if value is not None}
