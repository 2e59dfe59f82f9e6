import numpy as np
import pytest
from scipy.special import zeta

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.power_law import fit_power_law


def counts_of(alpha, users, most=200_000, seed=0):
    """Random counts with P(T) proportional to T^-alpha."""
    values = np.arange(1, most + 1)
    shares = values**-alpha
    return np.random.default_rng(seed).choice(values, users, p=shares / shares.sum())


@pytest.mark.parametrize("alpha", [1.8, 2.1, 2.5])
def test_the_exponent_of_a_power_law_is_found_at_every_cut(alpha):
    counts = counts_of(alpha, 100_000)
    for least in (1, 3):
        found = fit_power_law(counts, least)
        assert found.alpha == pytest.approx(alpha, abs=0.05)
        assert found.users == (counts >= least).sum()


def test_the_exponent_maximises_the_likelihood():
    counts = counts_of(2.0, 3000)
    grid = np.linspace(1.5, 3, 1501)
    tail = counts[counts >= 2]
    values = -grid * np.log(tail).sum() - len(tail) * np.log(zeta(grid, 2))
    assert fit_power_law(counts, 2).alpha == pytest.approx(grid[values.argmax()], abs=1e-3)


def test_a_lighter_tail_has_a_rising_exponent():
    counts = np.random.default_rng(0).geometric(0.02, 20_000)
    exponents = [fit_power_law(counts, least).alpha for least in (1, 20, 50)]
    assert exponents == sorted(exponents)
    assert exponents[2] > exponents[0] + 1


def test_counts_without_a_tail_are_refused():
    with pytest.raises(ConfigError, match="expected a smallest count of 1 or more, got 0"):
        fit_power_law(np.array([1, 2]), 0)
    for counts in ([], [3, 3], [1, 2], [np.inf, 4]):
        with pytest.raises(DataError, match="expected finite counts, some of them above 3"):
            fit_power_law(np.array(counts, float), 3)
