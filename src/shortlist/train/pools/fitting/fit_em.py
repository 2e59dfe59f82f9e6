"""Expectation maximisation of a mixture of nominators: exact M-steps, a likelihood that does not fall."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.models.mixture import PoolMixture, TwoTowerExperts
from shortlist.train.pools.fitting.em_steps import (
    Expected,
    expert_norm,
    gate_norm,
    gate_step,
    item_step,
    sigma_step,
    user_step,
)
from shortlist.train.pools.fitting.fit_sgd import check
from shortlist.train.pools.fitting.triples import Triples


@dataclass(frozen=True, eq=False)
class EMFit:
    """A mixture after its last iteration."""

    model: PoolMixture
    likelihood: tuple[float, ...]  # mean, with the penalties: before the first iteration and after each
    converged: bool


def fit_em(
    model: PoolMixture,
    triples: Triples,
    *,
    iterations: int = 30,
    ridge: float = 1.0,
    gate_ridge: float = 1e-3,
    gate_steps: int = 10,
    tolerance: float = 0.0,
) -> EMFit:
    """A copy of the mixture after so many iterations, in float64 meanwhile; on the device of the examples.

    Item vectors and feature weights are solved in turn, each exactly, with half of `ridge` times their squares as
    penalty; experts of which only the item vectors are trained are linear models of every item, and their M-step is
    exact. It stops when an iteration gains less than `tolerance` per example; 0: never.
    """
    check(model, triples, None)
    _check(model, iterations, ridge)
    kind = model.log_sigma.dtype
    made = copy.deepcopy(model).to(triples.device, torch.float64)
    x, rewards = triples.contexts.double()[triples.rows], triples.rewards.double()
    weights = torch.ones_like(rewards) if triples.weights is None else triples.weights.double()
    shares, first = _expected(made, x, triples.items, rewards, weights, ridge, gate_ridge)
    likelihood, converged = [first], False
    for _ in range(iterations):
        seen = Expected(x, triples.items, rewards, shares)
        gate_step(made, seen, gate_ridge, gate_steps)
        item_step(made, seen, ridge)
        user_step(made, seen, ridge)
        sigma_step(made, seen)
        shares, value = _expected(made, x, triples.items, rewards, weights, ridge, gate_ridge)
        likelihood.append(value)
        if converged := value - likelihood[-2] < tolerance:
            break
    return EMFit(made.to(kind), tuple(likelihood), converged)


def linear_experts(features: Tensor, n_items: int) -> TwoTowerExperts:
    """Experts that are a linear model of their features for every item: the vector of a context is its features."""
    sizes = features.sum(0)
    if not bool((sizes == sizes[0]).all()):
        raise ConfigError(
            f"linear experts: expected subsets of one size, got {sorted(set(sizes.tolist()))} features"
        )
    size = int(sizes[0])
    made = TwoTowerExperts(features, n_items, size + 1)
    place = (features.cumsum(0) - 1).masked_fill(~features, size)  # [d, N]
    with torch.no_grad():
        made.weight.copy_(torch.nn.functional.one_hot(place, size + 1) * features[..., None])
        made.constant.zero_()[:, size] = 1
        made.items.zero_()
    made.weight.requires_grad_(False)
    made.constant.requires_grad_(False)
    return made


@torch.no_grad()
def _expected(
    model: PoolMixture,
    x: Tensor,
    items: Tensor,
    rewards: Tensor,
    weights: Tensor,
    ridge: float,
    gate_ridge: float,
) -> tuple[Tensor, float]:
    """The responsibilities times the weights [T, N], and the penalised mean likelihood."""
    log_joint = model.log_joint(x, items, rewards)
    penalty = ridge / 2 * expert_norm(model) + gate_ridge / 2 * gate_norm(model)
    value = ((log_joint.logsumexp(-1) * weights).sum() - penalty) / weights.sum()
    return log_joint.softmax(-1) * weights[:, None], float(value)


def _check(model: PoolMixture, iterations: int, ridge: float) -> None:
    if model.outcome != "gaussian":
        raise ConfigError(f"em: expected gaussian outcomes, got {model.outcome}; train with fit_sgd")
    if iterations < 1 or not ridge > 0:
        raise ConfigError(f"em: expected iterations from 1 and a ridge above 0, got {iterations} and {ridge}")
