import numpy as np
import pytest

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.moments import (
    Moments,
    crossing,
    follows_law,
    information_q,
    q_drift,
    split_half_moments,
    variance_by_length,
)

rng = np.random.default_rng(5)


def halves(users, width, variance, error):
    """Two noisy copies of random vectors around (2, ..., 2)."""
    true = 2 + rng.normal(size=(users, width)) * variance**0.5
    return [true + rng.normal(size=(users, width)) * error**0.5 for _ in range(2)]


@pytest.mark.parametrize(
    ("q", "v", "threshold"),
    [(10, 1, 9), (2.5, 1, 2), (0.5, 1, 0), (10, 0, None), (10, -1, None), (13.52, 0.296, 45)],
)
def test_threshold_is_the_rounded_up_ratio_minus_one(q, v, threshold):
    assert crossing(q, v) == threshold


def test_moments_worked_out_by_hand():
    a, b = np.array([[1.0, 0], [3, 0]]), np.array([[1.0, 2], [3, 2]])
    # Squared distances 4, 4; the mean is (2, 1): products (-1)(-1) + (-1)(1) = 0 and (1)(1) + (-1)(1) = 0.
    assert split_half_moments(a, b, t=4) == Moments(4, 10.0, 0.0, None)
    assert split_half_moments(a, a, t=4) == Moments(4, 0.0, 1.0, 0)


def test_noise_cancels_in_the_variance():
    a, b = halves(40_000, 3, variance=0.5, error=2.0)
    found = split_half_moments(a, b, t=20)
    assert found.q == pytest.approx(21 * 3 * 2.0, rel=0.03)
    assert found.v == pytest.approx(3 * 0.5, rel=0.06)
    assert found.threshold == crossing(found.q, found.v)


def test_drift_is_the_largest_over_the_smallest():
    moments = [Moments(t, q, 1.0, None) for t, q in ((10, 4.0), (20, 2.0), (50, 3.0))]
    assert q_drift(moments) == 2.0
    assert follows_law(moments)
    assert not follows_law([*moments, Moments(100, 1.9, 1.0, None)])
    with pytest.raises(ConfigError, match="2 or more t with positive Q"):
        q_drift(moments[:1])


def test_variance_by_length_uses_the_mean_of_all_users():
    a, b = halves(5000, 2, variance=1.0, error=0.1)
    lengths = rng.integers(0, 100, 5000)
    bins = variance_by_length(a, b, lengths, (1, 10, 200))
    assert [(one.low, one.high) for one in bins] == [(1, 9), (10, 199), (200, None)]
    assert [one.users for one in bins] == [((lengths >= 1) & (lengths < 10)).sum(), (lengths >= 10).sum(), 0]
    assert bins[1].v == pytest.approx(2.0, rel=0.1)
    assert bins[2].v is None
    whole = variance_by_length(a, b, lengths, (0,))[0]
    assert whole.v == pytest.approx(split_half_moments(a, b, 1).v)


def test_information_is_the_mean_trace_of_inverse_covariances(monkeypatch):
    items = rng.normal(size=(7, 3))
    shares = rng.dirichlet(np.ones(7), size=11)
    traces = [
        np.trace(np.linalg.inv(np.cov(items.T, aweights=own, bias=True) + 0.1 * np.eye(3))) for own in shares
    ]
    assert information_q(items, shares, ridge=0.1) == pytest.approx(np.mean(traces))
    monkeypatch.setattr("shortlist.metrics.moments.CHUNK", 20)
    assert information_q(items, shares, ridge=0.1) == pytest.approx(np.mean(traces))


def test_bad_input_of_moments_is_refused():
    a = np.ones((3, 2))
    with pytest.raises(ConfigError, match="got t = 0"):
        split_half_moments(a, a, 0)
    with pytest.raises(DataError, match="expected two arrays"):
        split_half_moments(a, a[:2], 1)
    with pytest.raises(DataError, match="expected finite vectors"):
        split_half_moments(a, a * np.nan, 1)
    with pytest.raises(DataError, match="expected 3 lengths"):
        variance_by_length(a, a, np.ones(2), (1,))
    with pytest.raises(ConfigError, match="expected increasing starts"):
        variance_by_length(a, a, np.ones(3), (5, 1))
    with pytest.raises(DataError, match="give ridge > 0"):
        information_q(np.ones((4, 2)), np.full((1, 4), 0.25))
    with pytest.raises(DataError, match="expected items"):
        information_q(np.ones((4, 2)), np.full((1, 3), 1 / 3))
    with pytest.raises(DataError, match="sum to 1"):
        information_q(np.eye(4), np.full((1, 4), 0.5))
    with pytest.raises(ConfigError, match="expected a finite ridge"):
        information_q(np.eye(4), np.full((1, 4), 0.25), ridge=-1)
