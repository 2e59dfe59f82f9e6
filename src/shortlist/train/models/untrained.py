"""The trainer of models without weights, and of models that fit themselves."""

from dataclasses import dataclass, replace
from typing import Any

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.models.model import Model
from shortlist.progress import Progress, silent
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback
from shortlist.train.preparation.event_weights import uses_weights


@dataclass(frozen=True)
class UntrainedModel(ModelTrainer):
    """Builds the model from its config, or calls its classmethod `fit(config, events)`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # A model without `fit` reads no events.
        own = uses_weights(self.model) if hasattr(self.model, "fit") else None
        object.__setattr__(self, "uses_weights", own)

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> Model:
        config = self.config_for(events)
        model: Model = self.model.fit(config, events) if hasattr(self.model, "fit") else self.model(config)
        return model.eval()


def has_weights(model: type[Any]) -> bool:
    """Whether a model with one item has parameters or buffers."""
    made = model(replace(model.Config(), n_items=1))
    return bool(made.state_dict())
