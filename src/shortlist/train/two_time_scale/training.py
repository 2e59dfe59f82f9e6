"""One training of two-time-scale users, step by step: vectors, threshold, recurrences."""

from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import HeldOut
from shortlist.data.activity import is_active
from shortlist.models.collaborative.ccf import CCF
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.progress import note
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.trainer import Fit, Run
from shortlist.train.two_time_scale.gauge import gauge_fix
from shortlist.train.two_time_scale.joint import as_parameters, both_groups
from shortlist.train.two_time_scale.personal import FirstStage, held_vectors, moments_of, shrunk
from shortlist.train.two_time_scale.recurrence import GROUP, batches_of, group_loss, training_only
from shortlist.train.two_time_scale.sequences import Sequences, last_events, of_new_users, whole
from shortlist.train.two_time_scale.threshold import (
    FEW_EVENTS,
    MOST_EVENTS,
    candidates,
    choose_threshold,
    event_requests,
    reciprocal_ranks,
)

if TYPE_CHECKING:  # the trainer makes trainings
    from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer

NOBODY = 2**31 - 1  # a threshold that no user passes
WITHOUT_VALIDATION = 10  # epochs
NEW_SHARE, ACTIVE_SHARE = 0.35, 0.15  # of the time limit; the first stage has the rest
MAX_NORM = 1.0  # of the gradients of a step of the recurrences

Bools = NDArray[np.bool_]


class Training:
    """The steps of one training; each recurrence is a training loop of its own, with checkpoints."""

    def __init__(self, trainer: "TwoTimeScaleTrainer", data: Fit) -> None:
        self.trainer, self.data, self.events = trainer, data, data.events
        self.device = device_of(trainer.device)
        warm = data.warm
        self.before: Any = warm.config if data.valid is None and isinstance(warm, TwoTimeScale) else None
        self.state: LoopState | None = None  # of the last loop

    def run(self) -> Run:
        """The trained model."""
        torch.manual_seed(self.data.seed)
        model = self._one_stage() if self.trainer.stages == "one" else self._two_stages()
        return Run(model, self.state, None)

    @cached_property
    def first(self) -> CCF:
        """The model of the first stage."""
        trainer, data = self.trainer.first_stage(), self.data
        if self.before is not None:
            trainer = replace(trainer, epochs=max(self.before.first_epochs, 1))
        elif data.valid is None:
            trainer = replace(trainer, epochs=min(trainer.epochs, WITHOUT_VALIDATION))
        model: CCF = trainer.learn(
            self.events,
            data.valid,
            data.seed,
            data.progress,
            catalog=data.catalog,
            folder=self._folder("first"),
            clock=data.clock,
        )
        return model

    @cached_property
    def vectors(self) -> FirstStage:
        """User and item vectors of the first stage in one gauge."""
        first = self.first.eval()
        with torch.no_grad():
            known = first.trained_users
            users, items, factor = gauge_fix(first.user_embedding.weight[known], first.vectors())
            every = torch.zeros_like(first.user_embedding.weight)
            every[known] = users
            mean = users.mean(0) if len(users) else every.new_zeros(every.shape[1])
        return FirstStage(every, items.detach(), mean, self.trainer.prior * factor**2)

    def _two_stages(self) -> TwoTimeScale:
        if self.trainer.start == "shrink":
            return self._shrunk()
        threshold = self._threshold()
        return self._grouped(threshold)

    def _grouped(self, threshold: int, last: str = "") -> TwoTimeScale:
        """A model with this threshold, both recurrences trained."""
        active = is_active(self.events.lengths, threshold)
        active &= self.trainer.personal != "none"
        model = self._with_own(self._new_model(active, threshold), active)
        self._train_new(model, active, threshold)
        if active.any():
            self._train_active(model, active)
        return model.eval()

    def _threshold(self) -> int:
        """The given threshold, that of the measured model, or one chosen on validation events."""
        trainer = self.trainer
        if trainer.threshold >= 0:
            return trainer.threshold
        if self.before is not None:
            return NOBODY if self.before.threshold < 0 else int(self.before.threshold)
        bins = candidates(self.events.lengths)
        requests = None if self.data.valid is None else self._requests(self.data.valid, bins)
        if requests is None or trainer.personal != "own":
            return bins[len(bins) // 2] if bins and trainer.personal == "common" else NOBODY
        model = self._trial(bins)
        own, new = (reciprocal_ranks(model, requests, as_new) for as_new in (False, True))
        choice = choose_threshold(own, new, self.events.lengths[requests.users], bins)
        gains = ", ".join(f">{start}: {gain:+.4f}" for start, gain in zip(choice.bins, choice.gains, strict=True))
        note(self.data.progress, trainer.title, f"gain of own vectors by training events: {gains}")
        return NOBODY if choice.threshold is None else choice.threshold

    def _requests(self, valid: HeldOut, bins: tuple[int, ...]) -> HeldOut | None:
        """Validation events of users who may be active; None without enough of them."""
        if not bins:
            return None
        known = self.events.lengths[valid.users] > bins[0]
        requests = event_requests(valid.take(np.flatnonzero(known)), MOST_EVENTS, self.data.seed)
        return requests if len(requests) >= FEW_EVENTS else None

    def _trial(self, bins: tuple[int, ...]) -> TwoTimeScale:
        """Own vectors from the lowest candidate on, and a recurrence of new users for everyone."""
        active = is_active(self.events.lengths, bins[0])
        model = self._with_own(self._new_model(active, bins[0]), active)
        self._train_new(model, active, self.trainer.window, "trial-")
        self._train_active(model, active, "trial-")
        return model.eval()

    def _shrunk(self) -> TwoTimeScale:
        """Every user has a vector of their own, moved towards the mean; unknown users have the mean."""
        moments = moments_of(self.events, self.vectors, self.data.seed)
        ratio = moments.q / moments.v if moments is not None and moments.v > 0 else float(self.trainer.last)
        known = self.events.lengths > 0
        users = np.flatnonzero(known)
        model = self._new_model(known, -1, extra=1)
        model.config = replace(model.config, all_own=True)
        counts = np.maximum(self.events.lengths[users] - self.trainer.last, 0)
        held = held_vectors(self.events, users, self.trainer.last, self.vectors)
        own = shrunk(held, torch.from_numpy(counts).to(held.device), ratio, self.vectors.mean)
        with torch.no_grad():
            model.own.copy_(torch.cat([own, self.vectors.mean[None]]))
            model.base[:-1] = torch.from_numpy(counts).to(self.device)
        self._train_active(model, known)
        return model.eval()

    def _new_model(self, active: Bools, threshold: int, extra: int = 0) -> TwoTimeScale:
        """A model with the item vectors of the first stage, own rows for active users, and untrained recurrences."""
        common = self.trainer.personal == "common"
        rows = 1 if common and active.any() else int(active.sum())
        config = self.trainer.config_for(
            self.events,
            n_users=self.events.n_users,
            n_active=rows + extra,
            feature_width=self._item_width - self.trainer.config.width,
            threshold=threshold if 0 <= threshold < NOBODY else -1,
        )
        config = replace(config, readout="plain", gate_bias=0.0) if common and config.readout == "anchored" else config
        model = TwoTimeScale(config).to(self.device)
        with torch.no_grad():
            numbers = np.zeros(int(active.sum()), np.int64) if common else np.arange(int(active.sum()))
            model.own_row[torch.from_numpy(np.flatnonzero(active))] = torch.from_numpy(numbers).to(self.device)
            if self.trainer.stages == "two":
                model.items.copy_(self.vectors.items)
                model.start.copy_(self.vectors.mean)
        return model

    @property
    def _item_width(self) -> int:
        return self.vectors.items.shape[1] if self.trainer.stages == "two" else self.trainer.config.width

    def _with_own(self, model: TwoTimeScale, active: Bools) -> TwoTimeScale:
        """The same model with the vectors of its active users, and how many events are in them."""
        users, trainer = np.flatnonzero(active), self.trainer
        if not len(users):
            return model
        if trainer.personal == "common":
            with torch.no_grad():
                model.own.copy_(self.vectors.mean[None])
            return model
        lengths = torch.from_numpy(self.events.lengths[users]).to(self.device)
        with torch.no_grad():
            if trainer.base == "held":
                model.own.copy_(held_vectors(self.events, users, trainer.last, self.vectors))
            else:
                model.own.copy_(self.vectors.users[torch.from_numpy(users).to(self.device)])
            replayed = trainer.last if trainer.base == "held" or trainer.replay else 0
            model.base.copy_((lengths - replayed).clamp(min=0))
        return model

    def _train_new(self, model: TwoTimeScale, active: Bools, threshold: int, name: str = "") -> None:
        """Train the recurrence of new users; early stopping is on requests of users who are not active."""
        everyone = self.trainer.personal == "none"
        prefix = min(threshold, self.trainer.window) if self.trainer.prefix or not (~active).any() else 0
        sequences = (
            whole(self.events, np.ones(self.events.n_users, bool), self.trainer.window, known=False)
            if everyone
            else of_new_users(self.events, active, prefix, self.trainer.window)
        )
        self._train(model, sequences, False, self._valid(~active), f"{name}new", NEW_SHARE)
        model.config = replace(model.config, new_epochs=self._epochs())

    def _train_active(self, model: TwoTimeScale, active: Bools, name: str = "") -> None:
        """Train the recurrence of active users on their last events, or on all where they have a common start."""
        if self.trainer.personal == "common":
            sequences = whole(self.events, active, self.trainer.window, known=True)
            with as_parameters(model, ("own",)):
                self._train(model, sequences, True, self._valid(active), f"{name}active", ACTIVE_SHARE, ("own",))
            return
        sequences = last_events(self.events, active, self.trainer.last)
        self._train(model, sequences, True, self._valid(active), f"{name}active", ACTIVE_SHARE)
        model.config = replace(model.config, active_epochs=self._epochs())

    def _train(
        self,
        model: TwoTimeScale,
        sequences: Sequences,
        active: bool,
        valid: HeldOut | None,
        name: str,
        share: float,
        more: tuple[str, ...] = (),
    ) -> None:
        """Train the weights of one group in place."""
        if not len(sequences):
            return
        generator = torch.Generator().manual_seed(self.data.seed)
        loss = group_loss(model, self.events, sequences, active, self.trainer.offers, generator)
        batches, steps = batches_of(sequences, loss, self.trainer.batch_size, self.data.seed)
        with training_only(model, (*GROUP[active], *more)):
            self._loop(model, batches, steps, valid, name, share)

    def _loop(
        self, model: TwoTimeScale, batches: Batches, steps: int, valid: HeldOut | None, name: str, share: float
    ) -> None:
        trainer, data = self.trainer, self.data
        known = None if self.before is None else getattr(self.before, f"{name}_epochs", 0)
        usual = trainer.epochs if valid is not None else min(trainer.epochs, WITHOUT_VALIDATION)
        loop = Loop(
            max(known or usual, 1),
            trainer.learning_rate,
            trainer.weight_decay,
            trainer.patience,
            share * trainer.minutes,
            max_norm=MAX_NORM,
        )
        metric = trainer._metric(model, valid, data.seed)
        task = f"{trainer.title} {name}"
        state = LoopState(model, loop.optimizer(model))
        self.state = loop.train(
            state,
            batches,
            steps,
            task,
            data.progress,
            trainer._validate(model, self.events, metric, data.on_validation),
            trainer.early_stop_metric,
            self._folder(name),
            data.clock,
        )

    def _epochs(self) -> int:
        """Epochs of the last loop up to its best one."""
        if self.state is None:
            return 0
        values = self.state.validation
        return values.index(max(values)) + 1 if values else self.state.epoch

    def _valid(self, users: Bools) -> HeldOut | None:
        """The validation requests of some users, None without any."""
        valid = self.data.valid
        rows = None if valid is None else np.flatnonzero(users[valid.users])
        return None if valid is None or rows is None or not len(rows) else valid.take(rows)

    def _folder(self, name: str) -> Path | None:
        folder = self.data.folder
        return None if folder is None else folder.with_name(f"{folder.name}-{name}")

    def _one_stage(self) -> TwoTimeScale:
        """All weights trained together: item vectors, own vectors and both recurrences (an ablation)."""
        threshold = self.trainer.threshold
        active = is_active(self.events.lengths, threshold if threshold >= 0 else NOBODY)
        model = self._new_model(active, threshold)
        prefix = min(threshold, self.trainer.window) if self.trainer.prefix and threshold >= 0 else 0
        groups = {
            False: of_new_users(self.events, active, prefix, self.trainer.window),
            True: last_events(self.events, active, self.trainer.last),
        }
        lengths = torch.from_numpy(self.events.lengths[active]).to(self.device)
        with torch.no_grad():
            model.items.normal_(std=0.1)
            model.own.normal_(std=0.1)
            model.base.copy_((lengths - self.trainer.last).clamp(min=0))
        with as_parameters(model, ("items", "own")):
            batches, steps = both_groups(model, self.events, groups, self.trainer, self.data.seed)
            self._loop(model, batches, steps, self.data.valid, "one", NEW_SHARE + ACTIVE_SHARE)
        return model.eval()
