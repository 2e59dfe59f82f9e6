"""Base class of trainers that run epochs of gradient steps."""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.progress import Progress, silent
from shortlist.settings import setting
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import FitSummary
from shortlist.train.loop.device import DEVICES, device_of
from shortlist.train.loop.horizon import BETTER, TRIAL_EPOCHS, TRIAL_TIME, horizons
from shortlist.train.loop.lazy_adamw import use_sparse_gradients
from shortlist.train.loop.loop import Batches, Clock, Loop
from shortlist.train.loop.validation import parse_metric, validation_metric
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback

VALUE_COPIES = 3  # of a number of a batch: itself, a temporary one and its gradient
SETTLE = 10  # first epochs of a new model that early stopping does not count
CONTINUED = 0.2  # share of the epochs of a training without validation that continues from fitted weights


@dataclass(frozen=True, eq=False)
class Fit:
    """The input of one training of a model."""

    events: Interactions
    valid: HeldOut | None = None
    seed: int = 0
    progress: Progress = silent
    on_validation: OnValidation = no_callback
    catalog: Catalog | None = None
    folder: Path | None = None  # of checkpoints
    warm: Any | None = None  # a model of the same kind to continue from, fitted on fewer events
    log: TrainingLog | None = None  # requests of a full-stage log, for trainers that learn from it
    clock: Clock = time.monotonic


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model and the state of its training; no state where there is nothing to train on."""

    model: Any
    state: LoopState | None
    ahead: int | None  # label horizon

    @property
    def best(self) -> float:
        """The best value of the validation metric."""
        return max(self.state.validation if self.state else (), default=0.0)

    def finished(self) -> Any:
        """The model with the facts of its training history."""
        state, model = self.state, self.model.eval()
        model.validation = state.validation if state else []
        model.summary = replace(state.summary if state else FitSummary(0), ahead=self.ahead)
        return model


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
    minutes: float = setting(
        0.0, "Training stops at the first step after this time; 0 = no limit.", least=0, most=1e6
    )

    sparse_gradients: ClassVar[bool] = False  # whether a step reads few rows of large embedding tables
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

    def with_log(self, batches: Batches, steps: int, model: Any, data: Fit) -> tuple[Batches, int]:
        """The batches of events, and those of logged requests for trainers that learn from a log; their number."""
        return batches, steps

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

    def optimizer(self, model: Any) -> torch.optim.Optimizer:
        """The optimizer of all weights of a model; its state is part of checkpoints."""
        return self._loop(0).optimizer(model)

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
        warm: Any | None = None,
        clock: Clock = time.monotonic,
        log: TrainingLog | None = None,
    ) -> Any:
        """A trained model; with a `folder`, checkpoints are written there and the same training continues from them.

        It continues from the weights of `warm`, if that has the same sizes; without validation, a fifth of the epochs.
        """
        self.check(events)
        data = Fit(events, valid, seed, progress, on_validation, catalog, folder, warm, log, clock)
        run = self.resolved(events)._run(data)
        if run.state is not None:
            self.finish(run.model, events)
        return run.finished()

    def resolved(self, events: Interactions) -> Self:
        """The same trainer with the settings that depend on the size of the data."""
        return self

    def learned(self, context: TrainContext, name: str = "") -> Any:
        warm = getattr(context.warm.get(name), "model", None)
        start = None if warm is None else fingerprint(warm.state_dict())
        parts = (self.settings(), fingerprint(context.valid), device_of(self.device).type)
        return self.learn(
            context.events,
            context.valid,
            context.seed,
            context.progress,
            catalog=context.catalog,
            folder=context.checkpoint_folder(self.title, *parts, *([] if start is None else [start])),
            warm=warm,
            log=context.log,
        )

    def _run(self, data: Fit) -> Run:
        """A training with these settings; a label horizon of 0 is chosen on the validation users first."""
        if getattr(self, "ahead", None) != 0:
            return self._continued(data, self._begun(data))
        choices = horizons(data.valid)
        if len(choices) == 1:
            return self._with(ahead=choices[0])._run(data)
        best = self._best_horizon(data, choices)
        return self._with(ahead=best.ahead)._continued(data, best)

    def _best_horizon(self, data: Fit, choices: tuple[int, ...]) -> Run:
        """A few epochs with every label horizon: the run with the best validation metric, or a shorter one near it."""
        limit = TRIAL_TIME * self.minutes / len(choices)
        few = self._with(epochs=min(TRIAL_EPOCHS, self.epochs), minutes=limit)
        best: Run | None = None
        seconds = 0.0
        for ahead in choices:
            folder = data.folder and data.folder.with_name(f"{data.folder.name}-ahead-{ahead}")
            run = few._with(ahead=ahead)._run(replace(data, folder=folder))
            seconds += run.state.seconds if run.state else 0.0
            best = run if best is None or run.best > BETTER * best.best else best
        assert best is not None
        if best.state is not None:
            best.state.seconds, best.state.out_of_time = seconds, False
        return best

    def _with(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def _begun(self, data: Fit) -> Run:
        """A new model, or one with the weights of `warm` if all sizes are the same."""
        torch.manual_seed(data.seed)
        device = device_of(self.device)
        model = self.begin(data.events, data.catalog).to(device)
        if data.warm is not None and _same_sizes(model, data.warm):
            model.load_state_dict(data.warm.state_dict())
        if self.sparse_gradients and device.type == "cpu":
            use_sparse_gradients(model)
        state = LoopState(model, self.optimizer(model)) if self._steps(data.events) else None
        return Run(model, state, getattr(self, "ahead", None))

    def _continued(self, data: Fit, run: Run) -> Run:
        """The same run after all epochs."""
        model, state = run.model, run.state
        if state is None:
            return run
        metric = self._metric(model, data.valid, data.seed)
        settle = 0 if data.warm is not None and _same_sizes(model, data.warm) else SETTLE
        own = self._batches(model, data.events, data.seed, device_of(self.device))
        batches, steps = self.with_log(own, self._steps(data.events), model, data)
        state = self._loop(self._epochs(data, model), settle).train(
            state,
            batches,
            steps,
            self.title,
            data.progress,
            self._validate(model, data.events, metric, data.on_validation),
            self.early_stop_metric,
            data.folder,
            data.clock,
        )
        return Run(model, state, run.ahead)

    def _epochs(self, data: Fit, model: Any) -> int:
        """All epochs; a fifth of them without validation and with weights that were fitted before."""
        short = data.valid is None and data.warm is not None and _same_sizes(model, data.warm)
        return max(1, math.ceil(CONTINUED * self.epochs)) if short else self.epochs

    def _loop(self, epochs: int, settle: int = 0) -> Loop:
        return Loop(epochs, self.learning_rate, self.weight_decay, self.patience, self.minutes, settle)

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


def _same_sizes(model: torch.nn.Module, other: Any) -> bool:
    """Whether two models are of one class, with weights of the same names and shapes."""
    mine, theirs = model.state_dict(), other.state_dict()
    same = type(model) is type(other) and mine.keys() == theirs.keys()
    return same and all(one.shape == theirs[name].shape for name, one in mine.items())
