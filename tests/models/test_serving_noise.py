"""Noise on user vectors: spec test 35."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.serving_noise import DRAWS, inclusion_shares, noisy_users

USERS = F.normalize(torch.randn(1500, 64, generator=torch.Generator().manual_seed(1)), dim=1)
SEEDS = torch.arange(1500)


def top(vectors: torch.Tensor, k: int = 50) -> torch.Tensor:
    items = F.normalize(torch.randn(5000, 64, generator=torch.Generator().manual_seed(2)), dim=1)
    return (vectors @ items.T).topk(k).indices


def test_sigma_zero_gives_identical_lists() -> None:
    """Spec test 35."""
    assert torch.equal(noisy_users(USERS, 0.0, SEEDS), USERS)
    assert torch.equal(top(noisy_users(USERS[:50], 0.0, SEEDS)), top(USERS[:50]))


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.5, 1.0])
def test_mean_cosine_is_that_of_the_formula(sigma: float) -> None:
    """Spec test 35: 1 / sqrt(1 + sigma^2) +- .01 at d = 64."""
    cosine = (noisy_users(USERS, sigma, SEEDS) * USERS).sum(1).mean().item()
    assert cosine == pytest.approx((1 + sigma**2) ** -0.5, abs=0.01)


@pytest.mark.parametrize(("sigma", "overlap"), [(0.1, 0.893), (0.3, 0.683), (0.5, 0.513), (1.0, 0.274)])
def test_overlap_of_lists_is_that_of_the_specification(sigma: float, overlap: float) -> None:
    """Spec 3.4: top 50 of 5,000 random unit vectors, d = 64."""
    plain, noisy = top(USERS[:200]), top(noisy_users(USERS[:200], sigma, SEEDS[:200]))
    shared = (plain[:, :, None] == noisy[:, None, :]).any(2).float().mean().item()
    assert shared == pytest.approx(overlap, abs=0.02)


def test_noise_depends_on_the_seed_of_the_request_and_not_on_the_batch() -> None:
    whole = noisy_users(USERS[:8], 0.3, SEEDS[:8])
    assert torch.allclose(whole[5:6], noisy_users(USERS[5:6], 0.3, SEEDS[5:6]))
    assert not torch.allclose(whole[5:6], noisy_users(USERS[5:6], 0.3, SEEDS[6:7]))
    assert torch.allclose(whole.norm(dim=1), torch.ones(8))


def test_negative_sigma_is_an_error() -> None:
    with pytest.raises(ConfigError, match="sigma"):
        noisy_users(USERS, -1.0, SEEDS)


def test_noise_keeps_the_length_of_a_vector_that_is_not_of_unit_length() -> None:
    long = USERS[:20] * torch.linspace(0.0, 9.0, 20)[:, None]
    noisy = noisy_users(long, 0.3, SEEDS[:20])
    assert torch.allclose(noisy.norm(dim=1), long.norm(dim=1), atol=1e-4)
    assert torch.allclose(
        noisy[5:], noisy_users(USERS[:20], 0.3, SEEDS[:20])[5:] * long[5:].norm(dim=1)[:, None], atol=1e-4
    )


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_inclusion_share_is_that_of_independent_draws_within_four_standard_errors(sigma: float) -> None:
    items = F.normalize(torch.randn(1000, 64, generator=torch.Generator().manual_seed(2)), dim=1)
    user, k, draws = USERS[:1], 50, 4000
    lists = (noisy_users(user.expand(draws, -1), sigma, torch.arange(draws)) @ items.T).topk(k).indices
    expected = torch.bincount(lists.flatten(), minlength=1000) / draws
    found = inclusion_shares(user[0], items, sigma, k, seed=5)
    error = (expected * (1 - expected) / DRAWS).sqrt()
    assert ((found - expected).abs() <= 4.5 * error + 2 / DRAWS).float().mean().item() > 0.99
    assert (found - expected)[lists[:100].flatten()].mean().abs().item() < 0.03


def test_item_has_the_share_one_if_all_fit_and_none_has_zero() -> None:
    assert inclusion_shares(USERS[0], USERS[1:5], 0.3, 4, 0).tolist() == [1.0] * 4
    assert inclusion_shares(USERS[0], USERS[1:50], 0.01, 4, 0).min().item() > 0
