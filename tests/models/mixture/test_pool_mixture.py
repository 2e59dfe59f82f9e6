"""The likelihood of a mixture of nominators, its gradients, and its hard pools."""

import math

import pytest
import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.models.mixture import (
    FrozenTable,
    Gate,
    PoolMixture,
    TwoTowerExperts,
    balance_loss,
    effective_experts,
)
from tests.models.mixture.worlds import WIDTH, A, D, N, examples, partition, small


def two_constants(learn_sigma: bool = False) -> PoolMixture:
    """Two experts that predict 1 and 0, with equal weights and sigma 1."""
    gate = Gate("item", 2, 1).double()
    torch.nn.init.zeros_(gate.items)
    table = FrozenTable(torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    return PoolMixture(table, gate, 1.0, learn_sigma=learn_sigma).double()


ONE = (
    torch.zeros(1, 1, dtype=torch.float64),
    torch.zeros(1, dtype=torch.int64),
    torch.ones(1, dtype=torch.float64),
)


def test_with_one_nominator_the_gradient_is_that_of_squared_error() -> None:
    torch.manual_seed(0)
    experts = TwoTowerExperts(torch.ones(D, 1, dtype=torch.bool), A, WIDTH).double()
    model = PoolMixture(experts, Gate("user_item", 1, A, D).double(), 0.4)
    contexts, items, rewards = examples()
    (-model.log_likelihood(contexts, items, rewards).mean()).backward()
    own = [one.grad.clone() for one in experts.parameters() if one.grad is not None]
    model.zero_grad()
    (((rewards - experts(contexts, items)[:, 0]) ** 2).mean() / (2 * 0.4**2)).backward()
    for one, other in zip(own, experts.parameters(), strict=True):
        assert other.grad is not None
        assert torch.allclose(one, other.grad, atol=1e-6)


def test_responsibilities_and_likelihood_of_the_example_worked_out_by_hand() -> None:
    model = two_constants()
    assert torch.allclose(
        model.responsibilities(*ONE), torch.tensor([[0.62246, 0.37754]]).double(), atol=1e-5
    )
    assert model.log_likelihood(*ONE).item() == pytest.approx(math.log(0.5 + 0.5 * math.exp(-0.5)))
    assert model.log_likelihood(*ONE).item() == pytest.approx(-0.21907, abs=1e-5)


def test_gradients_are_those_of_the_formula() -> None:
    model = small()
    contexts, items, rewards = examples()
    logits = model.gate(contexts, items).detach().requires_grad_()
    scores = model.experts(contexts, items).detach().requires_grad_()
    log_joint = logits.log_softmax(-1) + model.log_density(scores, rewards)
    log_joint.logsumexp(-1).sum().backward()
    responsible = model.responsibilities(contexts, items, rewards)
    assert logits.grad is not None
    assert scores.grad is not None
    assert torch.allclose(logits.grad, responsible - logits.exp())
    assert torch.allclose(scores.grad, responsible * (rewards[:, None] - scores) / 0.4**2)


def test_a_wide_sigma_gives_the_gates_weights_and_a_small_one_the_best_expert() -> None:
    contexts, items, rewards = examples()
    model = small()
    wide, narrow = (PoolMixture(model.experts, model.gate, sigma).double() for sigma in (1e4, 1e-3))
    assert torch.allclose(
        wide.responsibilities(contexts, items, rewards), model.gate(contexts, items).exp(), atol=1e-6
    )
    best = (rewards[:, None] - model.experts(contexts, items)).abs().argmin(-1)
    assert torch.equal(narrow.responsibilities(contexts, items, rewards).argmax(-1), best)


def test_with_hard_pools_only_the_owner_learns_and_nothing_is_nan() -> None:
    model = small("uniform", pools=partition())
    contexts, items, rewards = examples()
    keep = items % N != 2  # no example of the third pool
    contexts, items, rewards = contexts[keep], items[keep], rewards[keep]
    likelihood = model.log_likelihood(contexts, items, rewards).mean()
    owner = model.experts(contexts, items)[torch.arange(len(items)), items % N]
    assert likelihood.item() == pytest.approx(-(((rewards - owner) ** 2) / (2 * 0.4**2)).mean().item())
    likelihood.backward()
    for weights, at in ((model.experts.weight, 1), (model.experts.items, 1), (model.experts.constant, 0)):
        assert isinstance(weights, Tensor)
        assert weights.grad is not None
        assert bool(weights.grad.isfinite().all())
        assert not bool(weights.grad.select(at, 2).any())
        assert bool(weights.grad.select(at, 0).any())


def test_a_trained_gate_with_pools_has_finite_gradients() -> None:
    model = small("user_item", pools=partition() | partition().roll(1, 1))
    contexts, items, rewards = examples()
    loss = balance_loss(model.gate(contexts, items)) - model.log_likelihood(contexts, items, rewards).mean()
    (loss + model.mixture_mean(contexts, items).sum()).backward()
    assert all(bool(one.grad.isfinite().all()) for one in model.parameters() if one.grad is not None)


def test_the_mixture_of_an_item_gate_is_one_inner_product() -> None:
    model = small("item")
    contexts, _, _ = examples()
    experts = model.experts
    assert isinstance(experts, TwoTowerExperts)
    scaled = model.gate.item_weights()[..., None] * experts.vectors()  # [A, N, D]
    product = experts.users(contexts).flatten(1) @ scaled.flatten(1).T
    assert torch.allclose(product, model.mixture_scores(contexts), atol=1e-6)


def test_the_mixture_mean_of_single_items_equals_that_of_all_items() -> None:
    for outcome in ("gaussian", "bernoulli"):
        model = small(outcome=outcome)
        contexts, items, _ = examples()
        every = model.mixture_scores(contexts)
        assert torch.allclose(model.mixture_mean(contexts, items), every[torch.arange(len(items)), items])


def test_bernoulli_experts_have_the_log_loss_of_the_mixture_mean() -> None:
    model = small(outcome="bernoulli")
    contexts, items, rewards = examples()
    mean = model.mixture_mean(contexts, items)
    expected = rewards * mean.log() + (1 - rewards) * (1 - mean).log()
    assert torch.allclose(model.log_likelihood(contexts, items, rewards), expected)


def test_a_learned_sigma_has_a_normaliser_and_a_floor() -> None:
    model = two_constants(learn_sigma=True)
    with torch.no_grad():
        model.log_sigma.fill_(math.log(2.0))
    expected = math.log(0.5 + 0.5 * math.exp(-1 / 8)) - math.log(2)
    assert model.log_likelihood(*ONE).item() == pytest.approx(expected)
    with torch.no_grad():
        model.log_sigma.fill_(-20.0)
    assert model.sigma.item() == pytest.approx(0.05)


def test_balance_is_1_when_the_nominators_are_used_equally_and_n_when_one_is_used() -> None:
    equal = torch.eye(3).log()
    assert balance_loss(equal).item() == pytest.approx(1.0)
    assert balance_loss(equal[:1].expand(5, 3)).item() == pytest.approx(3.0)


def test_balance_can_be_below_1_where_the_most_used_nominator_is_not_the_most_often_largest() -> None:
    weights = torch.tensor([[0.51, 0.49], [0.51, 0.49], [0.0, 1.0]])
    assert balance_loss(weights.log()).item() == pytest.approx(2 * (0.34 * 2 + 0.66) / 3)
    assert balance_loss(weights.log()).item() < 1


def test_effective_experts_count_evenly_used_ones() -> None:
    load = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    assert torch.allclose(effective_experts(load), torch.tensor([4.0, 1.0, 2.0]))


def test_bad_mixtures_are_refused() -> None:
    experts = TwoTowerExperts(torch.ones(D, N, dtype=torch.bool), A, WIDTH)
    with pytest.raises(
        ConfigError, match=r"experts are \(nominators, items\) \(3, 8\), the gate is \(2, 8\)"
    ):
        PoolMixture(experts, Gate("item", 2, A))
    with pytest.raises(ConfigError, match="sigma above 0, got 0"):
        PoolMixture(experts, Gate("item", N, A), 0)
    with pytest.raises(ConfigError, match="got 'poisson'"):
        PoolMixture(experts, Gate("item", N, A), outcome="poisson")


def test_sigmas_of_other_nominators_are_refused() -> None:
    experts = TwoTowerExperts(torch.ones(4, 3, dtype=torch.bool), 5, 2)
    with pytest.raises(ConfigError, match="one sigma, or one for each of 3 nominators, got 2"):
        PoolMixture(experts, Gate("item", 3, 5), torch.tensor([0.2, 0.3]))
