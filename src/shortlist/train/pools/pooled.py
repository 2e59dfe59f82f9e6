"""The trainer of pooled nominators: a mixture on a log, with its gate or with pools that are taken from it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.models.mixture import Gate, PoolMixture, TwoTowerExperts, feature_subsets
from shortlist.models.mixture.gate import KINDS
from shortlist.models.mixture.pool_mixture import OUTCOMES
from shortlist.nominate import Pooled
from shortlist.nominate.pools import make_pools
from shortlist.settings import check_fields, setting
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.loop.convergence import FitSummary, history_of
from shortlist.train.loop.device import DEVICES, device_of
from shortlist.train.pools.distil import CAP, distil
from shortlist.train.pools.examples import (
    Requests,
    held_out_requests,
    item_factors,
    training_requests,
    with_negatives,
)
from shortlist.train.pools.finetune import SHARE, finetune, with_pools
from shortlist.train.pools.fitting.fit_sgd import PoolFit, fit_sgd
from shortlist.train.pools.fitting.number import LEAST_USED, prune
from shortlist.train.pools.fitting.settings import OBJECTIVES, PoolTraining
from shortlist.train.pools.fitting.triples import Triples
from shortlist.train.pools.user_features import user_features

ALLOCATIONS = ("gate", "distilled", "random")
MIN_DEVIATION = 1e-6


@dataclass(frozen=True)
class PooledTrainer:
    """Two-tower nominators and a gate on events, each with random items as negatives.

    `gate` keeps the gate; `distilled` takes pools from it and fine-tunes on them; `random` trains on random pools.
    """

    uses_weights: ClassVar[bool | None] = True

    n_nominators: int = setting(8, "Nominators.", least=1, most=1000)
    allocation: str = setting("gate", "What shares out the items.", choices=ALLOCATIONS)
    gate: str = setting("item", "What weights depend on.", choices=KINDS)
    width: int = setting(32, "Width of the vectors of a nominator.", least=1, most=8192)
    factors: int = setting(64, "Width of the item factors that describe a history.", least=1, most=8192)
    subset: float = setting(
        0.5, "Share of the features that a nominator reads, another random one for each.", least=1e-9, most=1
    )
    shared_items: bool = setting(False, "Item vectors shared by all nominators.")
    outcome: str = setting("gaussian", "Distribution of outcomes around a prediction.", choices=OUTCOMES)
    sigma: float = setting(0.0, "Standard deviation of outcomes; 0: of the examples.", least=0, most=100)
    objective: str = setting("item-likelihood", "What is trained.", choices=OBJECTIVES)
    prune: float = setting(
        LEAST_USED,
        "Nominators of a gate with a smaller part of the examples are left out; 1: an equal part.",
        least=0,
        most=1,
    )
    cap: float = setting(CAP, "Largest distilled pool over the mean size.", least=1, most=1000)
    negatives: int = setting(10, "Random items for each event.", least=1, most=10_000)
    instances: int = setting(100_000, "Largest number of events that are examples.", least=1, most=1e9)
    epochs: int = setting(20, "Largest number of epochs.", least=1, most=100_000)
    batch_size: int = setting(2000, "Training examples per step.", least=1, most=10_000_000)
    learning_rate: float = setting(5e-3, "Learning rate of Adam.", least=1e-9, most=10)
    gate_rate: float = setting(1.0, "Learning rate of the gate over that of the experts.", least=0, most=100)
    weight_decay: float = setting(1e-5, "Weight decay of item vectors.", least=0, most=10)
    balance: float = setting(1e-2, "Weight of the loss that spreads examples over nominators.", least=0)
    patience: int = setting(3, "Epochs without improvement before training stops.", least=1, most=100_000)
    restarts: int = setting(
        1, "Trainings from different initial values; the best is kept.", least=1, most=100
    )
    validation_users: int = setting(1000, "Largest number of validation requests.", least=1, most=1e9)
    device: str = setting("auto", "Device to train on; auto takes a GPU if there is one.", choices=DEVICES)

    def __post_init__(self) -> None:
        check_fields(self, "pooled")

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Pooled:
        name = str(settings.get("name", "pooled"))
        examples = Examples.of(self, int(settings.get("last", Pooled.last)), context)
        torch.manual_seed(context.seed)
        model = self._begun(context, examples)
        fit = self._fitted(model, examples, context, context.best_epochs.get(name))
        history = history_of(fit.validation, self.epochs, self.patience, FitSummary(fit.epochs))
        context.note(name, history)
        trained = fit.model.cpu()
        if self.allocation == "gate":  # pools keep their numbers, which other stages name
            trained = prune(trained, examples.triples, self.prune)
        if self.allocation == "distilled":
            trained = self._distilled(trained, examples, fit.epochs, context)
        return Pooled(trained, examples.factors, examples.scale, examples.user_features, **settings)

    def training(self, epochs: int, seed: int) -> PoolTraining:
        """The settings of the gradient training."""
        names = (
            "objective",
            "batch_size",
            "learning_rate",
            "gate_rate",
            "weight_decay",
            "balance",
            "patience",
        )
        own = {name: getattr(self, name) for name in names}
        return PoolTraining(**own, epochs=epochs, restarts=self.restarts, seed=seed)

    def _begun(self, context: TrainContext, examples: "Examples") -> PoolMixture:
        n_items, d = context.events.n_items, examples.triples.contexts.shape[1]
        subset = max(1, round(self.subset * d))
        experts = TwoTowerExperts(
            feature_subsets(d, self.n_nominators, subset, seed=context.seed),
            n_items,
            self.width,
            shared_items=self.shared_items,
        )
        features = _categories(context) if self.gate == "features" else None
        gate = Gate(self.gate, self.n_nominators, n_items, d, item_features=features)
        sigma = self.sigma or examples.deviation
        model = PoolMixture(experts, gate, sigma, outcome=self.outcome)
        random = make_pools(n_items, self.n_nominators, seed=context.seed)
        return with_pools(model, random) if self.allocation == "random" else model

    def _fitted(
        self, model: PoolMixture, examples: "Examples", context: TrainContext, best: int | None
    ) -> PoolFit:
        device = device_of(self.device)
        valid = None if best is not None or examples.valid is None else examples.valid.to(device)
        training = self.training(best or self.epochs, context.seed)
        return fit_sgd(
            model,
            examples.triples.to(device),
            valid,
            training,
            context.progress,
            self._folder(examples, context),
        )

    def _folder(self, examples: "Examples", context: TrainContext) -> Path | None:
        parts = (
            fingerprint(context.valid),
            fingerprint(examples.triples.contexts),
            device_of(self.device).type,
        )
        return context.checkpoint_folder("pooled", asdict(self), *parts)

    def _distilled(
        self, model: PoolMixture, examples: "Examples", epochs: int, context: TrainContext
    ) -> PoolMixture:
        pools = distil(model, examples.triples, cap=self.cap)
        training = self.training(epochs, context.seed)
        triples = examples.triples.to(device_of(self.device))
        return finetune(
            model, pools, "own_pool", triples, training=training, share=SHARE, progress=context.progress
        ).model.cpu()


@dataclass(frozen=True, eq=False)
class Examples:
    """What a mixture is trained on, and what requests are described with."""

    factors: Tensor  # [A, F]
    scale: Tensor  # [2, F]
    user_features: Tensor  # [U, G]
    triples: Triples
    valid: Triples | None = field(default=None)

    @classmethod
    def of(cls, trainer: PooledTrainer, last: int, context: TrainContext) -> "Examples":
        """Examples of the events, and of the validation requests if there are any."""
        events, random = context.events, np.random.default_rng(context.seed)
        factors = item_factors(events, trainer.factors, context.seed)
        requests = training_requests(events, factors, last, trainer.instances, random)
        if not len(requests):
            raise DataError(
                "pooled: expected users with at least two events, got none; use a nominator that counts"
            )
        mean, deviation = requests.means.mean(0), requests.means.std(0, correction=0)
        scale = torch.stack([mean, deviation.where(deviation > MIN_DEVIATION, 1.0)])
        users = user_features(context.user_table)

        def triples(own: Requests) -> Triples:
            seen = (own.means - scale[0]) / scale[1] * own.known[:, None]
            contexts = torch.cat([seen, users[own.users]], dim=1) if users.numel() else seen
            return with_negatives(own, contexts, events, trainer.negatives, random)

        valid = None
        if context.valid is not None and len(context.valid):
            held = held_out_requests(context.valid, factors, last, trainer.validation_users, random)
            valid = triples(held) if len(held) else None
        return cls(factors, scale, users, triples(requests), valid)

    @property
    def deviation(self) -> float:
        """The standard deviation of outcomes."""
        weights = self.triples.weights
        rewards = self.triples.rewards
        rate = float(rewards.mean() if weights is None else (rewards * weights).sum() / weights.sum())
        return math.sqrt(max(rate * (1 - rate), 1e-6))


def _categories(context: TrainContext) -> Tensor:
    """Which categories every item has [A, C]."""
    lists = context.category_lists
    features = torch.zeros(len(lists), len(context.catalog.categories) + 1)
    features.scatter_(1, lists.masked_fill(lists < 0, features.shape[1] - 1), 1.0)
    return features[:, :-1]
