"""Inclusion probabilities: exact ones add up to the slots, sampled ones agree."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import PlackettLuceStages, ScoreStages
from shortlist.metrics.funnel.inclusion import (
    biased_sets,
    exact_inclusion,
    exact_uniform_marginal,
    mc_inclusion,
    mc_marginal,
    mc_utility,
    uniform_sets,
)


def stages(n: int = 7, seed: int = 0) -> PlackettLuceStages:
    return PlackettLuceStages(np.random.default_rng(seed).normal(size=(2, n)), (3, 2))


@pytest.mark.parametrize("seed", range(5))
def test_inclusion_probabilities_add_up_to_the_final_slots(seed: int) -> None:
    """Spec test 27: 2.0 in the 5/3/2 case."""
    inclusion = exact_inclusion((0, 2, 3, 5, 6), stages(seed=seed))
    assert abs(sum(inclusion.values()) - 2.0) < 1e-12
    assert set(inclusion) == {0, 2, 3, 5, 6}


def test_sampled_inclusion_agrees_with_the_exact_one() -> None:
    """Spec test 27: within 4 standard errors."""
    items = (0, 2, 3, 5, 6)
    sampled = mc_inclusion(items, stages().draws(20_000, 3))
    for item, probability in exact_inclusion(items, stages()).items():
        assert abs(sampled.probability[item] - probability) < 4 * sampled.error[item]
    assert sampled.probability[[1, 4]].tolist() == [0, 0]
    assert sampled.probability.sum() == pytest.approx(2.0)


def test_inclusion_of_fixed_scores_is_0_or_1() -> None:
    cascade = ScoreStages(np.array([[5.0, 4, 3, 2, 1], [1.0, 2, 3, 4, 5]]), (3, 1))
    assert exact_inclusion((0, 1, 2, 3, 4), cascade) == {0: 0.0, 1: 0.0, 2: 1.0, 3: 0.0, 4: 0.0}


def test_selection_of_a_fixed_size_depends_on_the_set() -> None:
    """Spec 2.3: adding a strong item lowers the inclusion of the others, so p(v | A) = p(v) cannot hold."""
    logits = PlackettLuceStages(np.array([[0.0, 0.0, 3.0, -3.0]]), (1,))
    assert exact_inclusion((0, 1, 2), logits)[0] < 0.1
    assert exact_inclusion((0, 1, 3), logits)[0] > 0.4


def test_sampled_marginal_agrees_with_enumeration_of_all_sets() -> None:
    exact = exact_uniform_marginal(stages(), 5)
    sampled = mc_marginal(uniform_sets(7, 5, 40_000, 1), stages().draws(40_000, 2))
    assert abs(sampled - exact).max() < 4 * 0.5 / np.sqrt(40_000 * 5 / 7)
    assert exact.sum() * 5 / 7 == pytest.approx(2.0)


def test_biased_sets_hold_likely_items_more_often() -> None:
    sets = biased_sets(np.array([2.0, 0.0, 0.0, -2.0]), 2, 2000, 0)
    counts = np.bincount(sets.ravel(), minlength=4)
    assert counts[0] > counts[1] > counts[3]
    assert (np.sort(sets, axis=1)[:, 0] != np.sort(sets, axis=1)[:, 1]).all()


def test_utility_of_sets_is_inclusion_times_relevance() -> None:
    relevance, draws = np.random.default_rng(5).random(7), stages().draws(500, 4)
    sets = np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
    one_by_one = [mc_inclusion(one, draws).probability @ relevance for one in sets.tolist()]
    assert mc_utility(sets, relevance, draws) == pytest.approx(one_by_one)


def test_exact_inclusion_refuses_what_it_cannot_enumerate() -> None:
    with pytest.raises(ConfigError, match="at most 10 items and 2 later stages"):
        exact_inclusion(range(11), PlackettLuceStages(np.zeros((1, 11)), (2,)))
    with pytest.raises(ConfigError, match="Monte Carlo"):
        exact_inclusion((0, 1), ScoreStages(np.zeros((3, 2)), (1, 1, 1)))
    with pytest.raises(ConfigError, match="distinct"):
        exact_inclusion((0, 0), stages())
