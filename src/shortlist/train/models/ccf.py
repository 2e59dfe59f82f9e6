"""The trainer of CCF: softmax over offers of in-batch and uniform negatives, with sparse updates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.models.collaborative.ccf import CCF
from shortlist.models.collaborative.item_features import ItemFeatures
from shortlist.progress import Progress, note
from shortlist.settings import setting
from shortlist.train.loop.loop import Batches
from shortlist.train.loop.losses import weighted_mean
from shortlist.train.loop.offers import NEGLIGIBLE, batch_offer_loss, largest_share, mixed_negatives
from shortlist.train.loop.rowwise_adagrad import RowwiseAdagrad
from shortlist.train.loop.trainer import VALUE_COPIES, Fit, LoopTrainer, Run
from shortlist.train.loop.validation import LIKELIHOOD

PRIORS = ("mean", "zero", "none")
MOMENTUM = 0.01  # of the running mean of the user vectors


@dataclass(frozen=True, eq=False)
class OfferBatches:
    """Training events in random batches, and what the loss of a batch reads; columns of events stay on the host."""

    events: Interactions
    device: torch.device
    item_counts: Tensor  # [N]
    per_event: Tensor  # [n_users] 1 / T_u, the share of a user's prior that one of its events has
    keys: Tensor | None  # [distinct pairs] user * n_items + item, sorted; None: histories are not masked

    @classmethod
    def of(cls, events: Interactions, device: torch.device, mask_history: bool) -> "OfferBatches":
        """All events; with `mask_history`, their distinct pairs too."""
        counts = torch.from_numpy(events.popularity.astype(np.float32)).to(device)
        examples = _examples(events)
        per_event = torch.from_numpy((1 / np.maximum(examples, 1)).astype(np.float32)).to(device)
        keys = torch.from_numpy(_pairs(events)).to(device) if mask_history else None
        return cls(events, device, counts, per_event, keys)

    def positions(self, seed: int, epoch: int, size: int) -> Iterator[NDArray[np.int32]]:
        """All events in a random order, in batches; events of one user are spread over all of them."""
        order = np.arange(len(self.events), dtype=np.int32)  # half the memory of a permutation of int64
        np.random.default_rng((seed, epoch)).shuffle(order)
        for start in range(0, len(order), size):
            yield order[start : start + size]

    def rows(self, at: NDArray[np.int32]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Users, items and strengths of events at these positions, on the device."""
        users, items = self.events.users[at].astype(np.int64), self.events.items[at].astype(np.int64)
        strengths = None if self.events.strengths is None else self.events.strengths[at]
        weights = None if strengths is None else torch.from_numpy(strengths).to(self.device)
        return torch.from_numpy(users).to(self.device), torch.from_numpy(items).to(self.device), weights

    def hidden(self, users: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Which items [U] each user [P] interacted with in training [P, U]; None where histories are not masked."""
        keys = self.keys
        if keys is None:
            return None

        def interacted(items: Tensor) -> Tensor:
            key = users[:, None] * self.events.n_items + items
            return keys[torch.searchsorted(keys, key).clamp(max=len(keys) - 1)] == key

        return interacted


@dataclass(frozen=True)
class CCFTrainer(LoopTrainer):
    """Every event against an offer: the other positives of its batch, and uniform items.

    Tables are updated row by row with Adagrad, only where a batch reads them; the layers over item features with Adam.
    Only validation users with training events count: all others have the same vector, whatever is learned of users.
    """

    uses_weights: ClassVar[bool | None] = True

    model: type[Any] = field(default=CCF, kw_only=True)
    epochs: int = 20
    batch_size: int = 1024
    learning_rate: float = setting(
        1e-3, "Learning rate of Adam, for the layers over item features.", least=1e-9, most=10
    )
    weight_decay: float = setting(
        0.0, "Weight decay of Adam, for the layers over item features.", least=0, most=10
    )
    table_learning_rate: float = setting(
        0.1, "Learning rate of row-wise Adagrad, for all tables.", least=1e-9, most=10
    )
    uniform_negatives: int = setting(
        512, "Uniform items among the candidates of a batch.", least=0, most=10_000_000
    )
    correction: bool = setting(
        True, "Subtract the log of the expected count of every candidate, so that popularity is learned."
    )
    early_stop_metric: str = setting(
        "recall@20",
        f"Validation metric: recall@k, ndcg@k, or {LIKELIHOOD}, the geometric mean of the probabilities of relevant "
        "items in a softmax over the whole catalogue.",
    )
    mask_history: bool = setting(False, "Leave items of the user's training events out of its offers.")
    features: bool = setting(True, "Read categories and numeric columns of the catalogue.")
    item_dropout: float = setting(
        0.1, "Share of items whose own vector is left out in training, with features.", least=0, most=0.95
    )
    prior: str = setting(
        "mean", "Centre that user vectors are drawn to: their mean, zero, or none.", choices=PRIORS
    )
    prior_weight: float = setting(
        0.1, "Weight of the squared distance to the centre, once per user and epoch.", least=0, most=1e6
    )

    def begin(self, events: Interactions, catalog: Catalog | None) -> CCF:
        found = self._features(catalog)
        if found is None:
            return CCF(self.config_for(events, n_users=events.n_users))
        sizes = {"n_categories": found.n_categories, "categories_of_item": found.categories.shape[1]}
        model = CCF(self.config_for(events, n_users=events.n_users, n_numbers=len(found.names), **sizes))
        model.encoder.dropout = self.item_dropout
        model.encoder.with_features(found)
        return model

    def _features(self, catalog: Catalog | None) -> ItemFeatures | None:
        return ItemFeatures.of(catalog) if self.features and catalog is not None else None

    def optimizer(self, model: CCF) -> torch.optim.Optimizer:
        return RowwiseAdagrad(model, self.table_learning_rate, self.learning_rate, self.weight_decay)

    def memory(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of the tables, the best ones and as much again while they are written, and what batches need.

        Those are a permutation, and the pairs of user and item if histories are masked; and the values of a batch.
        """
        by_event = 4 + 8 * self.mask_history
        values = 4 * VALUE_COPIES * self.batch_values(events)
        return 3 * self.size(events, catalog) + by_event * len(events) + values

    def batch_values(self, events: Interactions) -> int:
        positives = min(self.batch_size, len(events))
        candidates = positives + self.uniform_negatives
        masks = positives * candidates if self.mask_history else 0
        return int((positives + candidates) * (self.config.width + self.config.feature_width)) + masks

    def _steps(self, events: Interactions) -> int:
        return -(-len(events) // self.batch_size)

    def _begun(self, data: Fit) -> Run:
        """Weights that were fitted before have the features of their catalogue; this one may have others."""
        run = super()._begun(data)
        if data.warm is not None and (found := self._features(data.catalog)) is not None:
            run.model.encoder.with_features(found)
        return run

    def _continued(self, data: Fit, run: Run) -> Run:
        progress = self._remarked(data.events, data.progress)
        return super()._continued(
            replace(data, valid=_known(data.valid, data.events), progress=progress), run
        )

    def _remarked(self, events: Interactions, progress: Progress) -> Progress:
        """A progress report that warns where masking hits moves the optimum."""
        counts = torch.from_numpy(events.popularity.copy())
        size = min(self.batch_size, len(events))
        share = largest_share(size, self.uniform_negatives, counts, len(events))
        if share < NEGLIGIBLE:
            return progress
        return _Remarked(
            progress,
            f"the most popular item is {share:.1%} of the candidates: leaving it out where it is the positive moves "
            "its score; more uniform_negatives lessen it",
        )

    def _batches(self, model: CCF, events: Interactions, seed: int, device: torch.device) -> Batches:
        data = OfferBatches.of(events, device, self.mask_history)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = torch.Generator(device).manual_seed(_seed_of(seed, epoch))
            for at in data.positions(seed, epoch, self.batch_size):
                yield partial(self.loss_of, model, data, at, generator)

        return batches

    def loss_of(
        self, model: CCF, data: OfferBatches, at: NDArray[np.int32], generator: torch.Generator
    ) -> Tensor:
        """The loss of the events at these positions; the generator samples uniform items."""
        users, items, weights = data.rows(at)
        vectors = model.user_embedding(users)  # [P, D]
        ids, log_q = mixed_negatives(
            items, self.uniform_negatives, data.item_counts, len(data.events), generator
        )
        corrections = log_q if self.correction else None
        loss = batch_offer_loss(vectors, items, model.encoder, ids, corrections, weights, data.hidden(users))
        if self.prior == "none" or not self.prior_weight:
            return loss
        return loss + self.prior_weight * self._distance(model, vectors, data.per_event[users], weights)

    def _distance(self, model: CCF, vectors: Tensor, per_event: Tensor, weights: Tensor | None) -> Tensor:
        """The mean over events of |phi_u - m|^2 / T_u: in an epoch it counts once for each user."""
        if self.prior == "zero":
            centred = vectors
        else:
            share = per_event / per_event.sum()
            model.mean_user.lerp_(share @ vectors.detach(), MOMENTUM)
            centred = vectors - model.mean_user
        examples = None if weights is None else (weights > 0).to(vectors.dtype)
        return weighted_mean(centred.square().sum(1) * per_event, examples)

    def finish(self, model: CCF, events: Interactions) -> None:
        trained = (events.lengths > 0, events.popularity > 0)
        model.finish(*(torch.from_numpy(one).to(model.mean_user.device) for one in trained))


@dataclass(frozen=True)
class _Remarked:
    """The same display, with a remark after every other one."""

    progress: Progress
    remark: str

    def __call__(self, task: str, done: int, total: int) -> None:
        self.progress(task, done, total)

    def note(self, task: str, text: str) -> None:
        note(self.progress, task, f"{text}; {self.remark}")


def _examples(events: Interactions) -> NDArray[np.int64]:
    """T_u, the number of examples of each user [n_users]."""
    if events.strengths is None:
        return events.lengths
    return np.bincount(events.users[events.strengths > 0], minlength=events.n_users)


def _pairs(events: Interactions) -> NDArray[np.int64]:
    """The distinct pairs of user and item as user * n_items + item, sorted."""
    return np.unique(events.users.astype(np.int64) * events.n_items + events.items)


def _seed_of(seed: int, epoch: int) -> int:
    """The seed of one epoch's negatives, another one than that of its order."""
    return int(np.random.SeedSequence((seed, epoch, 1)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _known(valid: HeldOut | None, events: Interactions) -> HeldOut | None:
    """The validation requests of users with training events."""
    if valid is None or not len(valid):
        return None
    users = valid.users
    known = events.lengths[np.minimum(users, events.n_users - 1)] > 0 if events.n_users else users < 0
    return valid.take(np.flatnonzero(known & (users < events.n_users)))
