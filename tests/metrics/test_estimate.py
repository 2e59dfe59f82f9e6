import numpy as np
import pytest
from scipy import stats

from shortlist.errors import ConfigError
from shortlist.metrics.estimate import exact_share, mcnemar, resampled, share, shares


def test_one_user_gives_an_interval_of_no_width():
    for kind in ("multinomial", "poisson"):
        drawn = resampled(np.array([[3, 7]]), 0, 200, kind)
        drawn = drawn[drawn[:, 1] > 0]
        assert np.ptp(drawn[:, 0] / drawn[:, 1]) == 0


def test_intervals_are_refused_below_thirty_users():
    few, enough = np.ones((29, 1), np.int64), np.ones((30, 1), np.int64)
    assert shares(few, few[:, 0])[0].as_dict() == {"mean": 1.0, "low": None, "high": None}
    assert shares(enough, enough[:, 0])[0].low == 1.0


def test_nothing_below_the_line_has_no_share():
    assert share(np.zeros(40), np.zeros(40)).mean is None
    assert share(np.zeros(0), np.zeros(0)).mean is None


def test_the_matrix_product_is_what_drawing_users_one_by_one_gives():
    values = np.arange(8).reshape(4, 2)
    rng = np.random.default_rng([5, 2])
    slow = np.array([values[row].sum(0) for row in rng.integers(0, 4, (50, 4))])
    assert np.array_equal(resampled(values, 5, 50), slow)


def test_many_users_are_drawn_in_bounded_portions(monkeypatch):
    whole = resampled(np.arange(20)[:, None], 3, 30)
    monkeypatch.setattr("shortlist.metrics.estimate.CELLS", 100)
    portions = resampled(np.arange(20)[:, None], 3, 30)
    assert whole.shape == portions.shape == (30, 1)
    assert np.array_equal(whole, portions)


def test_poisson_and_multinomial_draws_agree_within_their_own_noise():
    rng = np.random.default_rng(0)
    top, bottom = rng.integers(0, 5, 400), np.full(400, 5)
    both = np.stack([top, bottom], 1)
    spread = [
        np.quantile(np.divide(*resampled(both, 1, 4000, kind).T), [0.025, 0.5, 0.975])
        for kind in ("multinomial", "poisson")
    ]
    assert np.abs(spread[0] - spread[1]).max() < 0.003  # the interval is some 0.03 wide


def test_the_same_seed_pairs_the_draws_of_two_systems():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    apart = resampled(first[:, None], 4)[:, 0] - resampled(second[:, None], 4)[:, 0]
    assert np.array_equal(apart, resampled((first - second)[:, None], 4)[:, 0])


def test_an_interval_covers_the_truth_as_often_as_it_says():
    # 500 sets of 300 users with 1 to 9 pairs each; a user's pairs succeed together more often than alone.
    rng, covered = np.random.default_rng(7), 0
    for number in range(500):
        leaning, pairs = rng.beta(3, 7, 300), rng.integers(1, 10, 300)
        told = shares(rng.binomial(pairs, leaning)[:, None], pairs, number, 400)[0]
        covered += told.low <= 0.3 <= told.high
    assert 0.93 <= covered / 500 <= 0.97


def test_the_exact_interval_is_the_set_of_shares_that_are_not_refused():
    told = exact_share(7, 20)
    assert told.mean == 0.35
    assert stats.binom.sf(6, 20, told.low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 20, told.high) == pytest.approx(0.025)
    assert (exact_share(0, 9).low, exact_share(9, 9).high, exact_share(0, 0).mean) == (0.0, 1.0, None)


def test_mcnemar_looks_only_at_users_on_whom_the_two_differ():
    a = np.array([True] * 6 + [False] * 1 + [True] * 50)
    b = np.array([False] * 6 + [True] * 1 + [True] * 50)
    assert mcnemar(a, b) == pytest.approx(2 * (1 + 7) / 2**7)
    assert mcnemar(a, a) == 1.0


def test_wrong_questions_are_refused():
    with pytest.raises(ConfigError, match="multinomial or poisson"):
        resampled(np.ones((2, 1)), 0, kind="jackknife")
    with pytest.raises(ConfigError, match="same users"):
        mcnemar(np.ones(2, bool), np.ones(3, bool))
    with pytest.raises(ConfigError, match="0 to 3"):
        exact_share(4, 3)
