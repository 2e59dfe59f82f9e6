"""One training of two-time-scale users, step by step: item vectors, new users, own vectors, active users."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.activity import is_active
from shortlist.models.collaborative.ccf import CCF
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.progress import note
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import FitSummary, best_of
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.trainer import Fit, Run
from shortlist.train.two_time_scale.batches import DeviceEvents, OfEpoch, batches_of
from shortlist.train.two_time_scale.gauge import gauge_fix
from shortlist.train.two_time_scale.joint import as_parameters, both_groups, groups_of, set_random_tables
from shortlist.train.two_time_scale.new_items import follow
from shortlist.train.two_time_scale.personal import FEW, ItemSpace, chosen_prior, fitted, space_of
from shortlist.train.two_time_scale.recurrence import GROUP, group_loss, training_only
from shortlist.train.two_time_scale.sequences import Sequences, after_first, last_events, of_new_users, whole
from shortlist.train.two_time_scale.trials import ACTIVE_SHARE, chosen_threshold
from shortlist.train.two_time_scale.untrained import NOBODY, set_own_vectors, untrained
from shortlist.train.two_time_scale.validation import event_metric, has_repeats

if TYPE_CHECKING:  # the trainer makes trainings
    from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer

WITHOUT_VALIDATION = 10  # epochs
NEW_SHARE = 0.45  # of the time limit; the first stage has what is left
MAX_NORM = 1.0  # of the gradients of a step of the recurrences

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NewUsers:
    """The trained recurrence of new users, and the item vectors that it reads."""

    weights: dict[str, Tensor]
    space: ItemSpace
    epochs: int


class Training:
    """The steps of one training; each recurrence is a training loop of its own, with checkpoints."""

    def __init__(self, trainer: "TwoTimeScaleTrainer", data: Fit) -> None:
        self.trainer, self.data, self.events = trainer, data, data.events
        self.device = device_of(trainer.device)
        self.repeats = has_repeats(data.events)
        warm = data.warm
        self.before: Any = warm.config if data.valid is None and isinstance(warm, TwoTimeScale) else None
        self.state: LoopState | None = None  # of the last loop
        self.reported: LoopState | None = None  # of the last one with validation

    def run(self) -> Run:
        """The trained model."""
        torch.manual_seed(self.data.seed)
        model = self._one_stage() if self.trainer.stages == "one" else self._two_stages()
        return Run(model, self.reported or self.state, None)

    @cached_property
    def on_device(self) -> DeviceEvents:
        return DeviceEvents.of(self.events, self.device)

    @cached_property
    def first(self) -> CCF:
        """The model of the first stage; early stopping is on users whose vectors it trains."""
        trainer, data = self.trainer.first_stage(), self.data
        valid = self.valid(self.events.lengths > 0)
        valid = valid if valid is not None and len(valid) >= FEW else None
        if self.before is not None:
            trainer = replace(trainer, epochs=max(self.before.first_epochs, 1))
        elif valid is None:
            trainer = replace(trainer, epochs=min(trainer.epochs, WITHOUT_VALIDATION))
        model: CCF = trainer.learn(
            self.events,
            valid,
            data.seed,
            data.progress,
            catalog=data.catalog,
            folder=self._folder("first"),
            clock=data.clock,
        )
        return model.to(self.device)

    @property
    def _first_epochs(self) -> int:
        """Epochs of the first stage up to its best one."""
        summary: FitSummary = self.first.summary  # type: ignore[assignment]
        return best_epoch(self.first.validation) or summary.epochs

    @cached_property
    def _gauged(self) -> tuple[Tensor, float]:
        """Item vectors of the first stage in the gauge of the recurrences, and the factor of this gauge."""
        first = self.first.eval()
        with torch.no_grad():
            users = first.user_embedding.weight[first.trained_users]
            _, items, factor = gauge_fix(users, first.vectors())
        return items.detach(), factor

    @cached_property
    def space(self) -> ItemSpace:
        """Item vectors of the first stage with the mean of users."""
        return self._space(self._gauged[0])

    def _space(self, items: Tensor) -> ItemSpace:
        """Item vectors in the gauge of the recurrences with the mean of users, and the prior if one is given."""
        prior = self.trainer.prior * self._gauged[1] ** 2 if self.trainer.prior else 1.0
        return space_of(self.events, items, self.data.seed, prior)

    def _with_prior(self, space: ItemSpace) -> ItemSpace:
        """The same with the given prior of users, or with one that is chosen by their last events."""
        trainer = self.trainer
        if trainer.prior:
            return space
        space = chosen_prior(self.events, space, trainer.last, self.data.seed)
        note(self.data.progress, trainer.title, f"weight of the prior of user vectors: {space.prior:.3g}")
        return space

    def _two_stages(self) -> TwoTimeScale:
        if self.trainer.start == "shrink":
            return self._own_for_all()
        return self.grouped(self._threshold())

    def grouped(self, threshold: int, name: str = "", share: float = ACTIVE_SHARE) -> TwoTimeScale:
        """A model with this threshold, both recurrences trained."""
        active = self._active(threshold)
        new = self._new_users(active, threshold, name)
        space = self._with_prior(new.space)
        model = self._with_own(self._new_model(active, threshold, space), active, space)
        model.load_state_dict(new.weights, strict=False)
        model.config = replace(model.config, new_epochs=new.epochs)
        if active.any():
            self._train_active(model, active, space, name, share)
        return model.eval()

    def _active(self, threshold: int) -> Bools:
        """Users with vectors of their own, or with the recurrence of active users."""
        many = is_active(self.events.lengths, threshold)
        if self.trainer.personal == "swap":
            return ~many & (self.events.lengths > 0)
        return many & (self.trainer.personal != "none")

    def _threshold(self) -> int:
        """The given threshold, that of the measured model, or one chosen on validation events."""
        if self.trainer.threshold >= 0:
            return self.trainer.threshold
        if self.before is not None:
            return NOBODY if self.before.threshold < 0 else int(self.before.threshold)
        return chosen_threshold(self)

    def _own_for_all(self) -> TwoTimeScale:
        """Every user has a vector of its own under the prior, and unknown users have its mean; one recurrence."""
        new = self.everyone if self.trainer.transfer else None
        known, space = self.events.lengths > 0, self._with_prior(self.space if new is None else new.space)
        model = self._with_own(self._new_model(known, -1, space, extra=1), known, space)
        if new is not None:
            model.load_state_dict(new.weights, strict=False)
        model.config = replace(model.config, all_own=True)
        with torch.no_grad():
            model.own[-1] = space.mean
        self._train_active(model, known, space)
        return model.eval()

    def _new_model(
        self, active: Bools, threshold: int, space: ItemSpace | None, extra: int = 0
    ) -> TwoTimeScale:
        """A model with these item vectors, rows for active users, and untrained recurrences."""
        torch.manual_seed(self.data.seed)
        model = untrained(self.trainer, self.events, active, threshold, space, extra).to(self.device)
        if space is not None:
            model.config = replace(model.config, first_epochs=self._first_epochs)
        return model

    def _with_own(self, model: TwoTimeScale, active: Bools, space: ItemSpace) -> TwoTimeScale:
        """The same model with the vectors of its active users, and how many events are in them."""
        set_own_vectors(model, self.trainer, self.events, np.flatnonzero(active), space)
        return model

    def _new_users(self, active: Bools, threshold: int, name: str) -> NewUsers:
        """The recurrence of new users; with whole windows of all users it does not depend on the threshold."""
        trainer = self.trainer
        whole_log = trainer.personal == "none" or trainer.prefix == "window" or not (~active).any()
        if whole_log and trainer.personal != "swap":
            return self.everyone
        prefix = 0 if trainer.prefix == "none" else min(threshold, trainer.window)
        sequences = of_new_users(self.events, active, prefix, trainer.window)
        return self._trained_new(sequences, self.valid(~active), f"{name}new")

    @cached_property
    def everyone(self) -> NewUsers:
        """The recurrence that is trained on the events of all users."""
        users = np.ones(self.events.n_users, bool)
        of_epoch = partial(whole, self.events, users, self.trainer.window, False)
        return self._trained_new(of_epoch, self.data.valid, "new")

    def _trained_new(self, sequences: Sequences | OfEpoch, valid: HeldOut | None, name: str) -> NewUsers:
        """Train the recurrence of new users and, with tuned items, the item vectors."""
        model = self._new_model(np.zeros(self.events.n_users, bool), NOBODY, self.space)
        tuned = ("items",) if self.trainer.items == "tuned" else ()
        with as_parameters(model, tuned):
            self._train(model, sequences, False, valid, name, NEW_SHARE, tuned)
        space = self.space
        if tuned:
            items = follow(
                space.items, model.items, torch.from_numpy(self.events.popularity > 0).to(self.device)
            )
            space = self._space(items)
        weights = {name: one for name, one in model.state_dict().items() if name.startswith(GROUP[False])}
        return NewUsers(weights, space, self._epochs())

    def _train_active(
        self,
        model: TwoTimeScale,
        active: Bools,
        space: ItemSpace,
        name: str = "",
        share: float = ACTIVE_SHARE,
    ) -> None:
        """Train the recurrence of active users on events after their bases, or on all with a common start."""
        trainer, valid = self.trainer, self.valid(active)
        if trainer.personal == "common":
            sequences = whole(self.events, active, trainer.window, known=True)
            with as_parameters(model, ("own",)):
                self._train(model, sequences, True, valid, f"{name}active", share, ("own",))
            return
        if not trainer.last:
            model.keep_active()
            return
        if trainer.transfer:
            model.transfer()
        sequences = self._after_bases(active, max(model.config.threshold, 0), space)
        self._train(model, sequences, True, valid, f"{name}active", share)
        model.config = replace(model.config, active_epochs=self._epochs())

    def _after_bases(self, active: Bools, threshold: int, space: ItemSpace) -> Sequences:
        """The last events of active users; with held bases all later ones, each sequence after a base of its own."""
        trainer, events = self.trainer, self.events
        if trainer.base == "full" or not trainer.span:
            return last_events(events, active, trainer.last)
        few = (
            trainer.personal == "swap"
        )  # users below the threshold: their sequences begin with their second event
        first = 1 if few else max(threshold - trainer.last, 1)
        sequences = after_first(events, active, first, trainer.span)
        bases = fitted(events, events.starts[sequences.users], sequences.starts, space)
        return replace(sequences, bases=bases)

    def _train(
        self,
        model: TwoTimeScale,
        sequences: Sequences | OfEpoch,
        active: bool,
        valid: HeldOut | None,
        name: str,
        share: float,
        more: tuple[str, ...] = (),
    ) -> None:
        """Train the weights of one group in place."""
        if not len(self.events) or (isinstance(sequences, Sequences) and not len(sequences)):
            return
        trainer, data = self.trainer, self.data
        loss = group_loss(model, self.on_device, active, trainer.loss_for(self.events))
        batches, steps = batches_of(self.on_device, sequences, loss, trainer.batch_size, data.seed)
        with training_only(model, (*GROUP[active], *more)):
            self._loop(model, batches, steps, valid, name, share, as_new=not active)

    def _loop(
        self,
        model: TwoTimeScale,
        batches: Batches,
        steps: int,
        valid: HeldOut | None,
        name: str,
        share: float,
        as_new: bool,
    ) -> None:
        trainer, data = self.trainer, self.data
        known = None if self.before is None else getattr(self.before, f"{name}_epochs", 0)
        usual = trainer.epochs if valid is not None else min(trainer.epochs, WITHOUT_VALIDATION)
        minutes = share * trainer.minutes
        loop = Loop(
            max(known or usual, 1),
            trainer.learning_rate,
            trainer.weight_decay,
            trainer.patience,
            minutes,
            max_norm=MAX_NORM,
        )
        metric = event_metric(
            model, valid, as_new, self.repeats, trainer.early_stop_metric, trainer.validation_users, data.seed
        )
        self.state = loop.train(
            LoopState(model, loop.optimizer(model)),
            batches,
            steps,
            f"{trainer.title} {name}",
            data.progress,
            trainer._validate(model, self.events, metric, data.on_validation),
            trainer.early_stop_metric,
            self._folder(name),
            data.clock,
        )
        self.reported = self.state if self.state.validation else self.reported

    def _epochs(self) -> int:
        """Epochs of the last loop up to its best one."""
        state = self.state
        return 0 if state is None else best_epoch(state.validation) or state.epoch

    def valid(self, users: Bools) -> HeldOut | None:
        """The validation requests of some users, None without any."""
        valid = self.data.valid
        rows = None if valid is None else np.flatnonzero(users[valid.users])
        return None if valid is None or rows is None or not len(rows) else valid.take(rows)

    def _folder(self, name: str) -> Path | None:
        folder = self.data.folder
        return None if folder is None else folder.with_name(f"{folder.name}-{name}")

    def _one_stage(self) -> TwoTimeScale:
        """All weights trained together: item vectors, own vectors and both recurrences (an ablation)."""
        threshold, trainer = self.trainer.threshold, self.trainer
        active = is_active(self.events.lengths, threshold if threshold >= 0 else NOBODY)
        model = self._new_model(active, threshold, None)
        groups = groups_of(trainer, self.events, active)
        set_random_tables(model, self.events.lengths[active], trainer.last)
        with as_parameters(model, ("items", "own")):
            batches, steps = both_groups(model, self.on_device, groups, trainer, self.data.seed)
            self._loop(model, batches, steps, self.data.valid, "one", NEW_SHARE + ACTIVE_SHARE, as_new=False)
        return model.eval()


def best_epoch(values: Sequence[float]) -> int:
    """The number of epochs up to the first best one, 0 without any."""
    return best_of(values) + 1 if values else 0
