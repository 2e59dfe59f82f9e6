"""Exploration of nominators: bounded noise, and probabilities of Gumbel-top-k against enumeration."""

from itertools import permutations

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.nominate.explore import (
    FLOOR,
    bounded_noise,
    candidate_inclusion,
    gumbel_inclusion,
    poisson_inclusion,
)

SCORES = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])


def exact(scores: torch.Tensor, slots: int) -> torch.Tensor:
    """Sampling without replacement from a softmax, summed over all orders of `slots` items."""
    rates = scores.double().exp()
    found = torch.zeros(len(scores), dtype=torch.float64)
    for order in permutations(range(len(scores)), slots):
        chance, left = 1.0, float(rates.sum())
        for item in order:
            chance *= float(rates[item]) / left
            left -= float(rates[item])
        found[list(order)] += chance
    return found


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_share_of_draws_is_the_exact_probability(slots):
    found = gumbel_inclusion(SCORES, slots, seed=0, draws=40_000)
    assert torch.allclose(found.double(), exact(SCORES, slots), atol=0.015)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_poisson_arrivals_are_near_the_exact_probability(slots):
    found = poisson_inclusion(SCORES, slots)
    assert float(found.sum()) == pytest.approx(slots, abs=1e-3)
    assert torch.allclose(found.double(), exact(SCORES, slots), atol=0.08)
    many = torch.linspace(-1, 1, 200)  # the more items, the nearer
    draws = gumbel_inclusion(many, 20, seed=1, draws=20_000)
    assert torch.allclose(poisson_inclusion(many, 20), draws, atol=0.012)


def test_probabilities_have_a_floor_and_certain_items_have_one():
    unlikely = torch.tensor([50.0, 0.0, 0.0, -torch.inf])
    for found in (gumbel_inclusion(unlikely, 1, seed=0), poisson_inclusion(unlikely, 1)):
        assert found.tolist() == pytest.approx([1, FLOOR, FLOOR, 0], abs=1e-6)
    for found in (gumbel_inclusion(unlikely, 3, seed=0), poisson_inclusion(unlikely, 3)):
        assert found.tolist() == [1, 1, 1, 0]


def test_temperature_flattens_and_batches_do_not_matter():
    batch = torch.stack([SCORES, SCORES.flip(0)])
    hot = poisson_inclusion(batch, 2, temperature=100)
    assert torch.allclose(hot, torch.full((2, 5), 0.4), atol=0.01)
    assert torch.allclose(hot[0], poisson_inclusion(SCORES, 2, temperature=100))
    assert gumbel_inclusion(batch, 2, seed=3).shape == (2, 5)


def test_candidate_is_there_if_one_nominator_returns_it():
    own = torch.tensor([[0.5, 0.5], [0.0, 0.3], [1.0, 0.2]])
    assert candidate_inclusion(own).tolist() == pytest.approx([0.75, 0.3, 1.0])
    alone = torch.full((10,), 0.1)
    assert float(candidate_inclusion(alone)) == pytest.approx(0.65132, abs=1e-5)  # T31


def test_bounded_noise_has_exactly_its_length_and_depends_on_the_seed_alone():
    users = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    seeds = torch.arange(6)
    noisy = bounded_noise(users, 0.05, seeds)
    assert torch.allclose((noisy - users).norm(dim=1), 0.05 * users.norm(dim=1), rtol=1e-4)
    assert torch.equal(noisy[2:3], bounded_noise(users[2:3], 0.05, seeds[2:3]))
    assert not torch.equal(noisy, bounded_noise(users, 0.05, seeds + 1))
    assert bounded_noise(users, 0.0, seeds) is users
    assert bounded_noise(users[:0], 0.05, seeds[:0]).shape == (0, 16)


@pytest.mark.parametrize("eta", [-0.1, float("nan"), float("inf")])
def test_eta_must_be_a_finite_number(eta):
    with pytest.raises(ConfigError, match="eta must be 0 or a finite number above"):
        bounded_noise(torch.ones(1, 2), eta, torch.zeros(1))


@pytest.mark.parametrize(("slots", "temperature"), [(0, 1.0), (1, 0.0)])
def test_slots_and_temperature_are_checked(slots, temperature):
    with pytest.raises(ConfigError, match="expected at least one slot and a temperature above 0"):
        poisson_inclusion(SCORES, slots, temperature)
