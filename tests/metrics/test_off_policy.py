"""Off-policy estimates from logged probabilities."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.off_policy import capped_snips, effective_size, importance_weights


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1, 1, 1], 4), ([1, 0, 0, 0], 1), ([2, 1, 1, 0], 16 / 6), ([0, 0], 0), ([], 0)],
)
def test_effective_size_is_that_of_equal_weights_with_the_same_variance(weights, expected):
    assert effective_size(np.array(weights, np.float64)) == pytest.approx(expected)


def test_snips_of_a_case_worked_out_by_hand():
    outcome, target, logged = np.array([1.0, 0.0, 1.0]), np.array([0.2, 0.2, 0.6]), np.array([0.4, 0.4, 0.2])
    found = capped_snips(outcome, target, logged)  # weights 1/2, 1/2, 3
    assert found.estimate == pytest.approx(3.5 / 4)
    assert found.effective == pytest.approx(16 / 9.5)
    assert capped_snips(outcome, target, logged, cap=1).estimate == pytest.approx(1.5 / 2)
    assert importance_weights(target, logged, 1).tolist() == pytest.approx([0.5, 0.5, 1])


def test_estimate_is_the_mean_outcome_under_the_other_policy():
    random = np.random.default_rng(0)
    target, outcome = random.dirichlet(np.ones(6)), random.random(6)
    logged = random.dirichlet(np.ones(6)) / 2 + 1 / 12
    shown = random.choice(6, 200_000, p=logged)
    found = capped_snips(outcome[shown], target[shown], logged[shown], cap=1e6)
    assert found.estimate == pytest.approx(target @ outcome, abs=0.02)
    same = capped_snips(outcome[shown], logged[shown], logged[shown])
    assert same.effective == pytest.approx(len(shown))
    assert same.estimate == pytest.approx(outcome[shown].mean())


def test_policy_that_would_show_nothing_has_no_estimate():
    found = capped_snips(np.ones(3), np.zeros(3), np.full(3, 0.5))
    assert np.isnan(found.estimate)
    assert (found.effective, found.examples) == (0, 3)


@pytest.mark.parametrize("logged", [0.0, np.nan, 1.5, -0.1])
def test_missing_probabilities_are_refused(logged):
    with pytest.raises(
        ConfigError, match=r"expected logged probabilities above 0 and at most 1, got .* and 0 others"
    ):
        importance_weights(np.array([0.5, 0.5]), np.array([0.5, logged]))


def test_cap_and_new_probabilities_are_checked():
    with pytest.raises(ConfigError, match="expected a cap above 0, got 0"):
        importance_weights(np.ones(1), np.ones(1), 0)
    with pytest.raises(ConfigError, match="from 0 to 1 under the new policy"):
        importance_weights(np.array([1.1]), np.ones(1))
