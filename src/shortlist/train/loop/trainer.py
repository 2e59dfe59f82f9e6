"""Base class of trainers that run epochs of gradient steps."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.progress import Progress, silent
from shortlist.settings import setting
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.loop.device import DEVICES, device_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.validation import parse_metric, validation_metric
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback

VALUE_COPIES = 3  # of a number of a batch: itself, a temporary one and its gradient


@dataclass(frozen=True)
class LoopTrainer(ModelTrainer):
    """Trains in epochs, with early stopping on the validation users.

    Subclasses say how an epoch is split into batches and what the loss of a batch is.
    """

    epochs: int = setting(60, "Largest number of epochs.", least=1, most=100_000)
    batch_size: int = setting(128, "Training examples per step.", least=1, most=1_000_000)
    learning_rate: float = setting(1e-3, "Learning rate of AdamW.", least=1e-9, most=10)
    weight_decay: float = setting(1e-4, "Weight decay of AdamW.", least=0, most=10)
    patience: int = setting(
        5, "Training stops after this many epochs without improvement.", least=1, most=100_000
    )
    early_stop_metric: str = setting("recall@20", "Validation metric: recall@k or ndcg@k.")
    validation_users: int = setting(
        1000, "Largest number of validation users per evaluation.", least=1, most=1e9
    )
    device: str = setting("auto", "Device to train on; auto takes a GPU if there is one.", choices=DEVICES)

    memory_advice: ClassVar[str] = (
        "set a smaller width or batch_size, or leave out rare items with data prepare --min-item-events"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_metric(self.early_stop_metric)

    @abstractmethod
    def _batches(self, model: Any, events: Interactions, seed: int, device: torch.device) -> Batches:
        """Epoch -> losses to compute, one per step."""

    @abstractmethod
    def _steps(self, events: Interactions) -> int:
        """The largest number of batches in an epoch."""

    def begin(self, events: Interactions, catalog: Catalog | None) -> Any:
        """A new model for these events."""
        return self.model(self.config_for(events))

    def check(self, events: Interactions) -> None:
        """Refuse events that cannot be trained on with these settings."""

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        super().check_data(settings, context)
        device_of(self.device)
        self.check(context.events)

    def size(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of the weights, from a model without memory; 0 for one that cannot be made that way."""
        try:
            with torch.device("meta"):
                tensors = self.begin(events, catalog).state_dict().values()
        except (NotImplementedError, RuntimeError):
            return 0
        return sum(one.numel() * one.element_size() for one in tensors)

    def memory(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of weights, gradients, two moments, the best weights and the largest batch."""
        return 5 * self.size(events, catalog) + 4 * VALUE_COPIES * self.batch_values(events)

    def batch_values(self, events: Interactions) -> int:
        """The numbers in the largest tensors of a batch: scores, and vectors of items that are gathered."""
        return 0

    @property
    def vector_width(self) -> int:
        """Numbers of an item's vector; 1 if the model does not say."""
        return int(getattr(self.config, "width", 1))

    def finish(self, model: Any, events: Interactions) -> None:
        """Compute what the model needs for scoring, before each validation and at the end."""

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
        folder: Path | None = None,
    ) -> Any:
        """A trained model; with a `folder`, checkpoints are written there and the same training continues from them."""
        self.check(events)
        device = device_of(self.device)
        torch.manual_seed(seed)
        model = self.begin(events, catalog).to(device)
        if not self._steps(events):
            return model.eval()  # nothing to train on
        validate = self._validate(model, events, self._metric(model, valid, seed), on_validation)
        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        batches = self._batches(model, events, seed, device)
        model.validation = loop.run(
            model,
            batches,
            self._steps(events),
            self.title,
            progress,
            validate,
            self.early_stop_metric,
            folder,
        )
        self.finish(model, events)
        return model

    def learned(self, context: TrainContext) -> Any:
        folder = context.checkpoint_folder(
            self.title, self.settings(), fingerprint(context.valid), device_of(self.device).type
        )
        return self.learn(
            context.events,
            context.valid,
            context.seed,
            context.progress,
            catalog=context.catalog,
            folder=folder,
        )

    def _metric(self, model: Any, valid: HeldOut | None, seed: int) -> Callable[[], float] | None:
        """The early-stopping metric of the model as it is now."""
        return validation_metric(model, valid, seed, self.early_stop_metric, self.validation_users)

    def _validate(
        self,
        model: Any,
        events: Interactions,
        metric: Callable[[], float] | None,
        on_validation: OnValidation,
    ) -> Callable[[], float] | None:
        """The metric of a finished model, reported to a listener."""
        if metric is None:
            return None

        def validate() -> float:
            self.finish(model, events)
            value = metric()
            on_validation(value)
            return value

        return validate
