import numpy as np
import pytest

from shortlist.metrics.resampling import flipped_sums, resampled_means


def test_means_of_samples_are_those_of_a_loop_over_samples() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    rng = np.random.default_rng([5, 0])
    slow = [values[rng.integers(0, 40, 40)].mean(axis=0) for _ in range(30)]
    assert resampled_means(values, 5, 30) == pytest.approx(np.array(slow))


def test_every_sign_is_flipped_independently_in_half_of_the_samples() -> None:
    signs = flipped_sums(np.eye(37), seed=2, samples=4000)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean(axis=0)).max() < 0.08
    assert abs(np.corrcoef(signs.T) - np.eye(37)).max() < 0.08
