import numpy as np
import pytest
import torch

from shortlist.metrics import resampling
from shortlist.metrics.resampling import flipped_sums, resampled_means, whole_numbers


def test_means_of_samples_are_those_of_a_loop_over_samples() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    slow = [values[rows].mean(axis=0) for rows in samples_of(40, seed=5, count=30)]
    assert resampled_means(values, 5, 30) == pytest.approx(np.array(slow))


def samples_of(users, seed, count):
    """Rows of each bootstrap sample: eight samples from every generator."""
    blocks = (np.random.default_rng([seed, 0, start]) for start in range(0, count, 8))
    return np.concatenate([rng.integers(0, users, (8, users)) for rng in blocks])[:count]


def test_samples_do_not_depend_on_threads_memory_or_number_of_samples(monkeypatch):
    values = np.random.default_rng(0).normal(size=(40, 3))
    one = resampled_means(values, 5, 50)
    assert (resampled_means(values, 5, 30) == one[:30]).all()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert (resampled_means(values, 5, 50) == one).all()
    monkeypatch.setattr(resampling, "CELLS", 170)
    assert (resampled_means(values, 5, 50) == one).all()


def test_every_sign_is_flipped_independently_in_half_of_the_samples() -> None:
    signs = flipped_sums(np.eye(37), seed=2, samples=4000)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean(axis=0)).max() < 0.08
    assert abs(np.corrcoef(signs.T) - np.eye(37)).max() < 0.08


@pytest.mark.parametrize("users", [1, 7, 1000])
def test_sums_of_whole_numbers_are_exact_and_close(users):
    values = np.random.default_rng(0).normal(size=(users, 4)) * [1.0, 1e-9, 1e6, 0.0]
    whole, unit = whole_numbers(values)
    assert (whole == whole.round()).all()
    assert abs(whole).sum(axis=0).max() < 2**53
    assert whole * unit == pytest.approx(values, rel=1e-9, abs=1e-12 * abs(values).max())
    assert (whole_numbers(-values)[0] == -whole).all()
