import numpy as np
import pytest
import torch

from shortlist.train.loop.negatives import NegativeSampler

CPU = torch.device("cpu")
POPULARITY = np.array([0, 3, 8, 99])


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.0, [0.25] * 4),
        (0.5, [1 / 16, 2 / 16, 3 / 16, 10 / 16]),
        (1.0, [1 / 114, 4 / 114, 9 / 114, 100 / 114]),
    ],
)
def test_probabilities_are_events_plus_one_to_a_power(alpha, expected):
    assert NegativeSampler.of(POPULARITY, alpha, CPU).probability.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_items_are_sampled_with_their_probabilities(alpha):
    """The frequencies of 200,000 samples are within five standard deviations of the probabilities."""
    sampler, count = NegativeSampler.of(POPULARITY, alpha, CPU), 200_000
    torch.manual_seed(0)
    sampled = sampler.sample((count // 4, 4))
    assert sampled.shape == (count // 4, 4)
    frequency = torch.bincount(sampled.flatten(), minlength=4) / count
    spread = (sampler.probability * (1 - sampler.probability) / count).sqrt()
    assert ((frequency - sampler.probability).abs() < 5 * spread).all()


def test_item_without_events_can_be_sampled():
    torch.manual_seed(0)
    assert (NegativeSampler.of(POPULARITY, 1.0, CPU).sample((2000,)) == 0).any()


def test_expected_count_is_probability_times_samples():
    sampler = NegativeSampler.of(POPULARITY, 0.5, CPU)
    expected = sampler.log_expected(torch.tensor([[3, 0], [1, 3]]), 32).exp()
    assert expected.flatten().tolist() == pytest.approx([20.0, 2.0, 4.0, 20.0])


def test_samples_come_from_the_global_generator():
    sampler = NegativeSampler.of(POPULARITY, 0.5, CPU)
    samples = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        samples.append(sampler.sample((50,)))
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[0], samples[2])


def test_extreme_random_numbers_give_valid_items(monkeypatch):
    """0 gives the first item; a number that rounding puts above the last edge gives the last."""
    sampler = NegativeSampler.of(np.ones(7), 1.0, CPU)
    for uniform, item in ((0.0, 0), (1.0, 6)):
        monkeypatch.setattr(torch, "rand", lambda shape, device, uniform=uniform: torch.full(shape, uniform))
        assert sampler.sample((3,)).tolist() == [item] * 3
