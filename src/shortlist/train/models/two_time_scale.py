"""The trainer of two-time-scale users: item and user vectors first, then the recurrences of both groups."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from shortlist.data import Catalog, Interactions
from shortlist.models.fold_in import CELLS
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.settings import setting
from shortlist.train.loop.blocked_softmax import BLOCK
from shortlist.train.loop.device import device_of
from shortlist.train.loop.lazy_adamw import LAZY_ROWS
from shortlist.train.loop.loop import Batches
from shortlist.train.loop.trainer import Fit, LoopTrainer, Run
from shortlist.train.loop.validation import LIKELIHOOD
from shortlist.train.models.ccf import CCFTrainer
from shortlist.train.models.sequence import AFFORDABLE, MAX_LOGITS
from shortlist.train.two_time_scale.batches import DeviceEvents, batches_of
from shortlist.train.two_time_scale.recurrence import MOST_POSITIVES, LossSettings, group_loss
from shortlist.train.two_time_scale.sequences import whole
from shortlist.train.two_time_scale.training import NEW_SHARE, Training
from shortlist.train.two_time_scale.trials import ACTIVE_SHARE
from shortlist.train.two_time_scale.untrained import NOBODY

CHOSEN = -1  # threshold that is chosen on validation
PRIOR = 0.1  # weight of the prior of the first stage where none is given
FOLD_IN = 4  # tensors of scores that a fold-in has at a time
BASES, STARTS = ("held", "full"), ("threshold", "shrink")
PERSONS = ("own", "common", "none", "swap")
PREFIXES, ITEMS, LOSSES = ("none", "threshold", "window"), ("tuned", "frozen"), ("auto", "softmax", "offers")


@dataclass(frozen=True)
class TwoTimeScaleTrainer(LoopTrainer):
    """Two stages: a factorisation of all events, then two recurrences over its item vectors.

    The recurrence of new users reads every user as a new one, and may train the item vectors further. Then these are
    frozen: vectors of active users are fitted to all but their last events, which their recurrence is trained on.
    """

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True

    model: type[Any] = field(default=TwoTimeScale, kw_only=True)
    epochs: int = 40
    learning_rate: float = 3e-3
    early_stop_metric: str = "ndcg@100"
    batch_size: int = setting(2048, "Events per step, of whole sequences.", least=1, most=1_000_000)
    weight_decay: float = 0.0
    threshold: int = setting(
        CHOSEN,
        "Users with more training events than this are active; -1: chosen on validation.",
        least=-1,
        most=NOBODY,
    )
    last: int = setting(
        20, "Last events of active users that their recurrence is trained on.", least=0, most=10_000
    )
    span: int = setting(
        100,
        "Longest sequence of events of active users with a held base, each with a base of all events before it; "
        "0: the last events only.",
        least=0,
        most=10_000,
    )
    base: str = setting(
        "held",
        "Vectors of active users: held, fitted again without the last events; full, of all their events.",
        choices=BASES,
    )
    replay: bool = setting(
        True, "Whether the last events are replayed on a full base before the first request."
    )
    prefix: str = setting(
        "window",
        "First events of active users that the recurrence of new users is trained on too: none, as many as the "
        "threshold, or all, in windows.",
        choices=PREFIXES,
    )
    items: str = setting(
        "tuned",
        "Item vectors: tuned, trained further with the recurrence of new users and frozen after that; frozen, those of "
        "the first stage.",
        choices=ITEMS,
    )
    transfer: bool = setting(
        True, "The recurrence of active users begins with the weights of that of new users."
    )
    loss: str = setting(
        "auto",
        "softmax over all items; offers: softmax over the own item, items of the batch and uniform ones; auto: softmax "
        "where it is affordable.",
        choices=LOSSES,
    )
    start: str = setting(
        "threshold",
        "threshold: active users have vectors of their own; shrink: all users have, near the mean with few events, and "
        "one recurrence.",
        choices=STARTS,
    )
    window: int = setting(200, "Longest sequence of events of a step.", least=2, most=10_000)
    negatives: int = setting(
        512, "Uniform negatives per step, beside items of the batch.", least=1, most=10_000_000
    )
    logq_correction: bool = setting(True, "Correct scores for the sampling of candidates.")
    features: bool = setting(True, "Item vectors have a part from the columns of the catalogue.")
    prior: float = setting(
        0.0,
        "Weight of the squared distance of user vectors from their mean; 0: by the likelihood of last events.",
        least=0,
        most=1e6,
    )
    first_epochs: int = setting(30, "Largest number of epochs of the first stage.", least=1, most=100_000)
    first_learning_rate: float = setting(
        0.1, "Learning rate of the tables of the first stage.", least=1e-9, most=10
    )
    stages: str = setting(
        "two", "two, or one: all weights together in one training (an ablation).", choices=("two", "one")
    )
    personal: str = setting(
        "own",
        "Users with vectors of their own: the active ones (own), one vector for all of them (common), none, which is "
        "one recurrence for all, or the others (swap); all but own are ablations.",
        choices=PERSONS,
    )

    def _run(self, data: Fit) -> Run:
        return Training(self, data).run()

    def _batches(self, model: Any, events: Interactions, seed: int, device: torch.device) -> Batches:
        """An epoch of the recurrence of new users."""
        on_device = DeviceEvents.of(events, device)
        sequences = whole(events, np.ones(events.n_users, bool), self.window, known=False)
        loss = group_loss(model, on_device, False, self.loss_for(events))
        return batches_of(on_device, sequences, loss, self.batch_size, seed)[0]

    def _steps(self, events: Interactions) -> int:
        return -(-len(events) // self.batch_size)

    def begin(self, events: Interactions, catalog: Catalog | None) -> TwoTimeScale:
        """A model in which every user has a vector: no trained one is larger."""
        first = self.first_stage().begin(events, catalog) if self.stages == "two" else None
        width = self.config.width if first is None else first.config.encoder.total
        return TwoTimeScale(
            self.config_for(
                events,
                n_users=events.n_users,
                n_active=events.n_users,
                feature_width=width - self.config.width,
            )
        )

    def memory(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of the stage that needs most, and of the events on the training device."""
        first = self.first_stage().memory(events, catalog) if self.stages == "two" else 0
        return max(first, super().memory(events, catalog) + 4 * FOLD_IN * CELLS) + 12 * len(events)

    def batch_values(self, events: Interactions) -> int:
        size = min(self.batch_size, len(events))
        settings = self.loss_for(events)
        candidates = events.n_items if settings.softmax else self.negatives + MOST_POSITIVES
        if settings.softmax and device_of(self.device).type == "cpu":
            candidates = 0  # its scores exist block by block
        return int(size * (candidates + 8 * self.config.width) + BLOCK)

    def loss_for(self, events: Interactions) -> LossSettings:
        """The loss of `auto`: softmax if its scores fit into a GPU, or take little time on a CPU."""
        if device_of(self.device).type == "cpu":
            affordable = events.n_items <= LAZY_ROWS and len(events) * events.n_items <= AFFORDABLE
        else:
            affordable = self.batch_size * events.n_items <= MAX_LOGITS
        softmax = affordable if self.loss == "auto" else self.loss == "softmax"
        return LossSettings(softmax, self.negatives, self.logq_correction)

    def first_stage(self) -> CCFTrainer:
        """The trainer of the first stage."""
        limit = (1 - NEW_SHARE - 2 * ACTIVE_SHARE) * self.minutes
        trainer = CCFTrainer(
            epochs=self.first_epochs,
            table_learning_rate=self.first_learning_rate,
            uniform_negatives=self.negatives,
            correction=self.logq_correction,
            features=self.features,
            prior="mean",
            prior_weight=self.prior or PRIOR,
            patience=self.patience,
            early_stop_metric=LIKELIHOOD if self.logq_correction else self.early_stop_metric,
            validation_users=self.validation_users,
            device=self.device,
            minutes=limit,
        )
        return trainer.with_settings(width=self.config.width)
