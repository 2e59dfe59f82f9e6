"""EM: the likelihood never falls, and each step is the best one."""

import math

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.mixture import (
    Calibration,
    FrozenTable,
    Gate,
    JoinedExperts,
    PoolMixture,
    TwoTowerExperts,
    feature_subsets,
)
from shortlist.nominate.pools import make_pools
from shortlist.train.pools import Triples, fit_em, linear_experts, with_pools
from tests.train.pools.worlds import A, D, N, mixture, outcomes


def linear(kind: str, seed: int = 0, sigma: float = 0.4, learn_sigma: bool = True) -> PoolMixture:
    torch.manual_seed(seed)
    experts = linear_experts(feature_subsets(D, N, 4, seed=seed), A)
    torch.nn.init.normal_(experts.items, std=0.1)
    return PoolMixture(experts, Gate(kind, N, A, D), sigma, learn_sigma=learn_sigma)


@pytest.mark.parametrize("kind", ["item", "user_item", "user", "uniform"])
@pytest.mark.parametrize("learn_sigma", [True, False])
def test_the_likelihood_with_linear_experts_does_not_fall(kind: str, learn_sigma: bool) -> None:
    fit = fit_em(linear(kind, learn_sigma=learn_sigma), outcomes(40), iterations=30, ridge=0.1)
    steps = torch.tensor(fit.likelihood, dtype=torch.float64).diff()
    assert len(steps) == 30
    assert steps.min() >= -1e-9
    assert fit.likelihood[-1] > fit.likelihood[0] + 0.01


@pytest.mark.parametrize("shared", [False, True])
def test_the_likelihood_with_two_towers_does_not_fall(shared: bool) -> None:
    torch.manual_seed(0)
    experts = TwoTowerExperts(feature_subsets(D, N, 4, seed=0), A, 3, shared_items=shared)
    model = PoolMixture(experts, Gate("item", N, A), torch.full((N,), 0.4), learn_sigma=True)
    fit = fit_em(model, outcomes(40), iterations=15)
    assert torch.tensor(fit.likelihood, dtype=torch.float64).diff().min() >= -1e-9
    outside = fit.model.experts.weight[~experts.features]  # type: ignore[index]
    assert torch.equal(outside, experts.weight[~experts.features])


def test_one_linear_expert_is_ridge_regression_of_every_item() -> None:
    triples = outcomes(30)
    experts = linear_experts(torch.ones(D, 1, dtype=torch.bool), A)
    fit = fit_em(PoolMixture(experts, Gate("item", 1, A), 1.0), triples, iterations=1, ridge=0.7)
    for item in range(A):
        own = triples.items == item
        x = torch.cat([triples.contexts[own], torch.ones(30, 1)], 1).double()
        expected = torch.linalg.solve(x.T @ x + 0.7 * torch.eye(D + 1), x.T @ triples.rewards[own].double())
        found = fit.model.experts.items[item, 0].double()  # type: ignore[index]
        assert torch.allclose(found, expected, atol=1e-5)


def test_the_steps_cannot_be_improved_by_small_changes() -> None:
    model, triples = linear("item"), outcomes(30)
    fit = fit_em(model, triples, iterations=300, ridge=0.5)
    made = fit.model.double()
    x = triples.contexts.double()
    likelihood = made.log_likelihood(x, triples.items, triples.rewards.double()).sum()
    penalised = likelihood - 0.25 * (made.experts.items**2).sum()  # type: ignore[operator]
    (penalised / len(triples)).backward()
    for one in (made.experts.items, made.gate.items, made.log_sigma):
        assert one.grad.abs().max() < 1e-4  # type: ignore[union-attr]


def test_examples_of_weight_2_count_twice() -> None:
    triples = outcomes(10)
    twice = Triples(
        triples.contexts, triples.rows, triples.items, triples.rewards, torch.full((len(triples),), 2.0)
    )
    repeated = triples.take(torch.arange(len(triples)).repeat(2))
    one, two = (fit_em(linear("user_item"), given, iterations=3) for given in (twice, repeated))
    assert one.likelihood == pytest.approx(two.likelihood, abs=1e-6)


def test_frozen_experts_stay_and_learned_ones_move() -> None:
    popularity = FrozenTable.of(torch.linspace(0, 1, A), Calibration())
    experts = JoinedExperts([popularity, linear_experts(feature_subsets(D, 2, 3, seed=0), A)])
    fit = fit_em(PoolMixture(experts, Gate("item", 3, A), learn_sigma=True), outcomes(20), iterations=5)
    assert torch.equal(fit.model.experts.parts[0].outcomes, popularity.outcomes)  # type: ignore[index, union-attr]
    assert fit.likelihood[-1] > fit.likelihood[0]


def test_hard_pools_are_kept() -> None:
    pools = make_pools(A, N, seed=0)
    fit = fit_em(with_pools(linear("item"), pools), outcomes(20), iterations=3)
    weights = fit.model.gate.item_weights()
    assert torch.equal(weights > 0, torch.from_numpy(pools.matrix.T.copy()))
    assert math.isfinite(fit.likelihood[-1])


def test_it_stops_when_it_gains_too_little_and_changes_no_input() -> None:
    model = linear("item")
    before = model.experts.items.clone()  # type: ignore[operator]
    fit = fit_em(model, outcomes(20), iterations=50, tolerance=1e-3)
    assert fit.converged
    assert len(fit.likelihood) < 50
    assert torch.equal(model.experts.items, before)  # type: ignore[arg-type]
    assert fit.model.log_sigma.dtype == torch.float32


def test_a_free_sigma_explains_single_outcomes_and_predicts_new_ones_worse() -> None:
    """Why sigma is fixed by default: experts compete for outcomes of 0 and 1, and the gate absorbs the noise."""
    triples, new = outcomes(60), outcomes(60, seed=1)
    free = fit_em(linear("item"), triples, iterations=30).model
    fixed = fit_em(linear("item", sigma=1.0, learn_sigma=False), triples, iterations=30).model
    errors = [
        ((one.mixture_mean(new.contexts, new.items) - new.rewards) ** 2).mean().item()
        for one in (free, fixed)
    ]
    assert free.sigma.item() < 0.1
    assert errors[0] > errors[1] + 0.02


def test_what_it_cannot_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="gaussian outcomes, got bernoulli"):
        fit_em(mixture(outcome="bernoulli"), outcomes(5))
    with pytest.raises(ConfigError, match="a ridge above 0, got 30 and 0"):
        fit_em(mixture(), outcomes(5), ridge=0.0)
    with pytest.raises(ConfigError, match=r"subsets of one size, got \[1, 2\] features"):
        linear_experts(torch.tensor([[True, True], [True, False]]), A)
