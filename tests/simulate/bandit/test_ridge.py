"""Batched ridge regressions: masks, weights, precision (T12, T13, T16)."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.simulate.bandit import BatchRidge


def examples(count, width, seed=0, dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=random, dtype=torch.float64)
    reward = torch.randn(count, generator=random, dtype=torch.float64)
    return x.to(dtype), reward.to(dtype)


def fitted(x, reward, weights=None, **settings):
    ridge = BatchRidge((1,), x.shape[1], dtype=x.dtype, **settings)
    for number in range(len(x)):
        own = None if weights is None else weights[number : number + 1]
        ridge.update(x[number : number + 1], reward[number : number + 1], own)
    return ridge


def test_t12_coefficients_outside_the_mask_stay_zero():
    x, reward = examples(1000, 8)
    mask = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.float64)
    ridge, inside = fitted(x, reward, mask=mask), mask.bool()
    gathered = fitted(x[:, inside], reward)
    assert (ridge.theta[0, ~inside] == 0).all()
    assert (ridge.sigma[0][~inside] == 0).all()
    assert (ridge.sigma[0][:, ~inside] == 0).all()
    np.testing.assert_allclose(ridge.theta[0, inside], gathered.theta[0], atol=1e-10)
    np.testing.assert_allclose(ridge.sigma[0][inside][:, inside], gathered.sigma[0], atol=1e-10)
    np.testing.assert_allclose(
        ridge.scores(x[None, :5], 0.7), gathered.scores(x[None, :5, inside], 0.7), atol=1e-10
    )


@pytest.mark.parametrize("penalty", [0.003, 0.5, 1.0])
def test_t13_updates_are_the_direct_solution(penalty):
    x, reward = examples(300, 7)
    weights = 3 * torch.rand(300, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights[::5] = 0
    ridge = fitted(x, reward, weights, penalty=penalty)
    moments = (x * weights[:, None]).T @ x + penalty * torch.eye(7, dtype=torch.float64)
    np.testing.assert_allclose(ridge.sigma[0], torch.linalg.inv(moments), atol=1e-10)
    np.testing.assert_allclose(
        ridge.theta[0], torch.linalg.solve(moments, x.T @ (weights * reward)), atol=1e-10
    )
    assert torch.equal(ridge.sigma, ridge.sigma.mT)


def test_t13_weight_zero_changes_no_bit_and_weight_two_is_two_updates():
    x, reward = examples(3, 4)
    ridge = fitted(x[:2], reward[:2])
    before = {name: one.clone() for name, one in ridge.state_dict().items()}
    ridge.update(x[2:], reward[2:], torch.zeros(1, dtype=torch.float64))
    assert all(torch.equal(before[name], one) for name, one in ridge.state_dict().items())
    ridge.update(x[2:], reward[2:], torch.full((1,), 2.0, dtype=torch.float64))
    twice = fitted(x[[0, 1, 2, 2]], reward[[0, 1, 2, 2]])
    np.testing.assert_allclose(ridge.theta, twice.theta, atol=1e-12)
    np.testing.assert_allclose(ridge.sigma, twice.sigma, atol=1e-12)


def test_t16_float32_keeps_five_digits_with_a_penalty_of_one():
    x, reward = examples(1000, 40, dtype=torch.float32)
    ridge = fitted(x, reward)
    exact = torch.linalg.inv(x.double().T @ x.double() + torch.eye(40, dtype=torch.float64))
    assert float((ridge.sigma[0] - exact).norm() / exact.norm()) < 5e-6


def test_t16_small_penalties_with_float32_warn_and_renew_the_inverse():
    x, reward = examples(1000, 40, dtype=torch.float32)
    with pytest.warns(UserWarning, match=r"a penalty of 0\.0001 with float32 adds up rounding errors"):
        ridge = fitted(x, reward, penalty=1e-4)
    exact = torch.linalg.inv(x.double().T @ x.double() + 1e-4 * torch.eye(40, dtype=torch.float64))
    assert ridge.refresh_every == 256
    assert float((ridge.sigma[0] - exact).norm() / exact.norm()) < 1e-3


def test_bad_penalty_is_refused():
    for penalty in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="ridge: expected a penalty above 0"):
            BatchRidge((1,), 2, penalty=penalty)
