import numpy as np
import pytest
from scipy import stats

from shortlist.errors import ConfigError
from shortlist.metrics.estimate import Estimate, exact_share, mcnemar, resampled, share, shares


def test_interval_of_one_user_has_zero_width():
    for kind in ("multinomial", "poisson"):
        sums = resampled(np.array([[3, 7]]), 0, 200, kind)
        sums = sums[sums[:, 1] > 0]
        assert np.ptp(sums[:, 0] / sums[:, 1]) == 0


def test_no_interval_below_thirty_users():
    few, enough = np.ones((29, 1), np.int64), np.ones((30, 1), np.int64)
    assert shares(few, few[:, 0])[0] == Estimate(1.0)
    assert shares(enough, enough[:, 0])[0].low == 1.0


def test_zero_denominator_gives_no_share():
    assert share(np.zeros(40), np.zeros(40)).mean is None
    assert share(np.zeros(0), np.zeros(0)).mean is None


def test_weighted_sums_equal_resampling_users_one_by_one():
    values = np.arange(8).reshape(4, 2)
    rng = np.random.default_rng([5, 2])
    slow = np.array([values[row].sum(0) for row in rng.integers(0, 4, (50, 4))])
    assert np.array_equal(resampled(values, 5, 50), slow)


def test_chunked_resampling_equals_resampling_at_once(monkeypatch):
    whole = resampled(np.arange(20)[:, None], 3, 30)
    monkeypatch.setattr("shortlist.metrics.resampling.CELLS", 100)
    chunks = resampled(np.arange(20)[:, None], 3, 30)
    assert whole.shape == chunks.shape == (30, 1)
    assert np.array_equal(whole, chunks)


def test_poisson_and_multinomial_bootstrap_agree_within_sampling_error():
    rng = np.random.default_rng(0)
    top, bottom = rng.integers(0, 5, 400), np.full(400, 5)
    both = np.stack([top, bottom], 1)
    spread = [
        np.quantile(np.divide(*resampled(both, 1, 4000, kind).T), [0.025, 0.5, 0.975])
        for kind in ("multinomial", "poisson")
    ]
    assert np.abs(spread[0] - spread[1]).max() < 0.003  # the interval is some 0.03 wide


def test_same_seed_gives_paired_bootstrap_samples():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    apart = resampled(first[:, None], 4)[:, 0] - resampled(second[:, None], 4)[:, 0]
    assert np.array_equal(apart, resampled((first - second)[:, None], 4)[:, 0])


def test_95_percent_interval_has_nominal_coverage():
    # 500 data sets of 300 users with 1 to 9 trials each; trials of one user are correlated.
    rng, inside = np.random.default_rng(7), 0
    for number in range(500):
        rate, trials = rng.beta(3, 7, 300), rng.integers(1, 10, 300)
        estimate = shares(rng.binomial(trials, rate)[:, None], trials, number, 400)[0]
        inside += estimate.low <= 0.3 <= estimate.high
    assert 0.93 <= inside / 500 <= 0.97


def test_exact_interval_inverts_the_binomial_test():
    estimate = exact_share(7, 20)
    assert estimate.mean == 0.35
    assert stats.binom.sf(6, 20, estimate.low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 20, estimate.high) == pytest.approx(0.025)
    assert (exact_share(0, 9).low, exact_share(9, 9).high, exact_share(0, 0).mean) == (0.0, 1.0, None)


def test_mcnemar_uses_only_discordant_users():
    a = np.array([True] * 6 + [False] * 1 + [True] * 50)
    b = np.array([False] * 6 + [True] * 1 + [True] * 50)
    assert mcnemar(a, b) == pytest.approx(2 * (1 + 7) / 2**7)
    assert mcnemar(a, a) == 1.0


def test_invalid_arguments_are_refused():
    with pytest.raises(ConfigError, match="multinomial or poisson"):
        resampled(np.ones((2, 1)), 0, kind="jackknife")
    with pytest.raises(ConfigError, match="same users"):
        mcnemar(np.ones(2, bool), np.ones(3, bool))
    with pytest.raises(ConfigError, match="0 to 3"):
        exact_share(4, 3)


def test_interval_of_the_best_of_several_is_that_of_bonferroni():
    one = Estimate(0.5, 0.5 - stats.norm.ppf(0.975), 0.5 + stats.norm.ppf(0.975))
    assert one.best_of(1).low == pytest.approx(one.low)
    best = one.best_of(10)
    assert best.mean == one.mean
    assert best.high == pytest.approx(0.5 + stats.norm.ppf(1 - 0.05 / 20))
    assert Estimate(0.5).best_of(10) == Estimate(0.5)
