"""Completion of a rating table: biased matrix factorization and a network over attributes, calibrated together.

Models under test must not share architecture or seed with these.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import DataError
from shortlist.metrics.funnel.calibration import log_loss
from shortlist.metrics.logistic import logistic_regression
from shortlist.metrics.two_samples import auc
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.progress import Progress, silent
from shortlist.settings import check_fields, setting
from shortlist.simulate.full_stage.cell_noise import Floats, Rows
from shortlist.train.loop.loop import Loop, shuffled

CELLS = 1 << 16  # cells that the network predicts at once


@dataclass(frozen=True)
class CompletionConfig:
    """Settings of both models."""

    width: int = setting(16, "Width of the factors.", least=1, most=512)
    layers: tuple[int, ...] = setting((64, 32), "Layers of the network over attributes.", least=1)
    epochs: int = setting(10, "Passes over the ratings.", least=1)
    learning_rate: float = setting(5e-3, "Learning rate of AdamW.", least=0, most=1)
    weight_decay: float = setting(0.5, "Decay of the factors.", least=0)
    batch_size: int = setting(4096, "Ratings per step.", least=1)
    held_out: float = setting(
        0.1, "Share of the ratings to calibrate with, and to report on.", least=0.01, most=0.3
    )

    def __post_init__(self) -> None:
        check_fields(self, "completion")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Observed ratings [N] with the attributes of users [U, F] and items [I, G]."""

    users: Rows
    items: Rows
    values: Floats
    user_attributes: Floats
    item_attributes: Floats

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True)
class CompletionReport:
    """How well the ensemble predicts ratings that neither training nor calibration used."""

    rmse_factors: float
    rmse_attributes: float
    auc: float  # of P(rating >= threshold)
    log_loss: float
    base_log_loss: float  # of the share of positives
    predicted: float  # mean probability
    observed: float  # share of positives


@dataclass(frozen=True, eq=False)
class Completion:
    """P(rating >= threshold) = sigmoid(c0 + c1 * factors(u, v) + c2 * attributes(u, v))."""

    mean: float
    user_bias: Floats  # [U]
    item_bias: Floats  # [I]
    user_factors: Floats  # [U, D]
    item_factors: Floats  # [I, D]
    network: FeatureMLP
    user_attributes: Floats
    item_attributes: Floats
    coefficients: tuple[float, float, float]

    def probability(self, users: Rows, items: Rows) -> Floats:
        """Cells [B, K] from users [B] and items [K] or [B, K]."""
        c0, c1, c2 = self.coefficients
        logits = c0 + c1 * self.factor_ratings(users, items) + c2 * self.attribute_ratings(users, items)
        return np.asarray(expit(logits), np.float32)

    def factor_ratings(self, users: Rows, items: Rows) -> Floats:
        """Ratings of matrix factorization, relative to their mean [B, K]."""
        match = np.matmul(self.user_factors[users][:, None], self.item_factors[items].swapaxes(-1, -2))[:, 0]
        return np.asarray(self.user_bias[users][:, None] + self.item_bias[items] + match, np.float32)

    @torch.no_grad()
    def attribute_ratings(self, users: Rows, items: Rows) -> Floats:
        """Ratings of the network over attributes, relative to their mean [B, K]."""
        grid = np.broadcast_to(items, (len(users), items.shape[-1]))
        left, right = np.repeat(users, grid.shape[1]), grid.ravel()
        parts = [
            self.network(_pairs(self, left[at : at + CELLS], right[at : at + CELLS])).numpy()
            for at in range(0, len(left), CELLS)
        ]
        return np.concatenate([np.zeros(0, np.float32), *parts]).reshape(grid.shape)


class BiasedFactors(nn.Module):
    """Biases and factors of users and items; ratings relative to their mean."""

    def __init__(self, n_users: int, n_items: int, width: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, width), nn.Embedding(n_items, width)
        self.user_bias, self.item_bias = nn.Embedding(n_users, 1), nn.Embedding(n_items, 1)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        match = (self.users(users) * self.items(items)).sum(-1)
        ratings: Tensor = match + self.user_bias(users)[:, 0] + self.item_bias(items)[:, 0]
        return ratings


def complete(
    ratings: Ratings,
    threshold: float = 4.0,
    config: CompletionConfig | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[Completion, CompletionReport]:
    """Train both models on most ratings, calibrate them on held-out ones, and report on others."""
    config = config or CompletionConfig()
    train, calibrate, test = _parts(len(ratings), config.held_out, seed)
    found = _calibrated(_trained(ratings, train, config, seed, progress), ratings, calibrate, threshold)
    return found, _report(found, ratings, test, threshold)


def _trained(
    ratings: Ratings, train: Rows, config: CompletionConfig, seed: int, progress: Progress
) -> Completion:
    """Both models, trained on the ratings of the rows `train`."""
    torch.manual_seed(seed)
    users, items = ratings.user_attributes, ratings.item_attributes
    factors = BiasedFactors(len(users), len(items), config.width)
    network = FeatureMLP([users.shape[1] + items.shape[1], *config.layers])
    mean = float(ratings.values[train].mean())
    values = torch.from_numpy(ratings.values[train] - np.float32(mean))
    left, right = (torch.from_numpy(one[train]) for one in (ratings.users, ratings.items))
    _fit(factors, lambda rows: factors(left[rows], right[rows]), values, config, seed, "factors", progress)
    pairs = _pairs(ratings, ratings.users[train], ratings.items[train])
    network.fit_scale(pairs)
    plain = replace(config, weight_decay=0.0)
    _fit(network, lambda rows: network(pairs[rows]), values, plain, seed, "attributes", progress)
    return _completion(factors, network, ratings, mean)


def _parts(count: int, share: float, seed: int) -> list[Rows]:
    order, size = np.random.default_rng([seed, 24]).permutation(count), round(share * count)
    if size < 10 or count - 2 * size < 10:
        raise DataError(
            f"completion: expected ratings for training and two held-out parts, got {count} ratings"
        )
    return [order[2 * size :], order[:size], order[size : 2 * size]]


def _fit(
    model: nn.Module,
    predict: Callable[[Tensor], Tensor],
    values: Tensor,
    config: CompletionConfig,
    seed: int,
    task: str,
    progress: Progress,
) -> None:
    """Least squares."""

    def loss(rows: Tensor) -> Tensor:
        return F.mse_loss(predict(rows), values[rows])

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        for rows in shuffled(len(values), config.batch_size, np.random.default_rng([seed, epoch, 25])):
            yield partial(loss, torch.from_numpy(rows))

    loop = Loop(config.epochs, config.learning_rate, config.weight_decay, patience=0)
    loop.run(model, batches, -(-len(values) // config.batch_size), f"completion: {task}", progress)


def _pairs(found: Ratings | Completion, users: Rows, items: Rows) -> Tensor:
    """Attributes of users and items side by side [n, F + G]."""
    return torch.from_numpy(np.column_stack([found.user_attributes[users], found.item_attributes[items]]))


def _completion(factors: BiasedFactors, network: FeatureMLP, ratings: Ratings, mean: float) -> Completion:
    return Completion(
        mean=mean,
        user_bias=factors.user_bias.weight.detach().numpy()[:, 0],
        item_bias=factors.item_bias.weight.detach().numpy()[:, 0],
        user_factors=factors.users.weight.detach().numpy(),
        item_factors=factors.items.weight.detach().numpy(),
        network=network,
        user_attributes=ratings.user_attributes,
        item_attributes=ratings.item_attributes,
        coefficients=(0.0, 1.0, 0.0),
    )


def _predictions(found: Completion, ratings: Ratings, rows: Rows) -> tuple[Floats, Floats]:
    users, items = ratings.users[rows], ratings.items[rows][:, None]
    return found.factor_ratings(users, items)[:, 0], found.attribute_ratings(users, items)[:, 0]


def _calibrated(found: Completion, ratings: Ratings, rows: Rows, threshold: float) -> Completion:
    """Logistic regression of `rating >= threshold` on both predictions."""
    features = np.column_stack([np.ones(len(rows)), *_predictions(found, ratings, rows)])
    targets = (ratings.values[rows] >= threshold).astype(np.float64)
    c0, c1, c2 = logistic_regression(features, targets, ridge=1e-3)
    return replace(found, coefficients=(float(c0), float(c1), float(c2)))


def _report(found: Completion, ratings: Ratings, rows: Rows, threshold: float) -> CompletionReport:
    positive = ratings.values[rows] >= threshold
    probability = found.probability(ratings.users[rows], ratings.items[rows][:, None])[:, 0].astype(
        np.float64
    )
    factors, attributes = (
        _rmse(one + found.mean, ratings.values[rows]) for one in _predictions(found, ratings, rows)
    )
    weight, share = np.ones(len(rows)), np.full(len(rows), positive.mean())
    return CompletionReport(
        rmse_factors=factors,
        rmse_attributes=attributes,
        auc=auc(probability, positive),
        log_loss=log_loss(probability, positive, weight),
        base_log_loss=log_loss(share, positive, weight),
        predicted=float(probability.mean()),
        observed=float(positive.mean()),
    )


def _rmse(predicted: Floats, values: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - values) ** 2)))
