"""PRP, the surrogate (7), and GPRP by enumeration and by local search."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import PlackettLuceStages, ScoreStages
from shortlist.metrics.funnel.inclusion import exact_uniform_marginal, mc_utility
from shortlist.metrics.funnel.selection import (
    exact_gprp,
    expected_utility,
    mc_gprp,
    prp_set,
    score_gprp7,
    top_set,
)


def test_prp_set_is_the_unique_solution_of_the_max_min_problem() -> None:
    """Spec test 25 (proposition 1): 300 of 300 instances with n = 7, c_i = 4, c_T = 2."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        relevance = rng.random(7)
        worst = {items: np.sort(relevance[list(items)])[:2].sum() for items in combinations(range(7), 4)}
        best = [items for items, value in worst.items() if value >= max(worst.values()) - 1e-12]
        assert best == [prp_set(relevance, 4)]


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=12), st.floats(0.05, 1))
@settings(max_examples=50, deadline=None)
def test_surrogate_equals_prp_where_inclusion_is_constant_or_grows_with_relevance(
    values: list[int], p: float
) -> None:
    """Spec test 28: observations 1 and 2."""
    relevance = np.array(values) / 1000
    same = np.full(len(values), p)
    assert top_set(score_gprp7(same, relevance), 3) == prp_set(relevance, 3)
    assert top_set(score_gprp7(p * relevance, relevance), 3) == prp_set(relevance, 3)


def test_equal_scores_keep_the_smaller_ids() -> None:
    assert top_set(np.array([1.0, 2.0, 2.0, 2.0]), 2) == (1, 2)


def test_exact_gprp_is_at_least_as_good_as_every_set() -> None:
    rng = np.random.default_rng(1)
    relevance, stages = rng.random(6), PlackettLuceStages(rng.normal(size=(2, 6)), (3, 1))
    best = exact_gprp(relevance, stages, 4)
    utilities = [expected_utility(items, relevance, stages) for items in combinations(range(6), 4)]
    assert best.utility == max(utilities)
    assert best.utility == pytest.approx(expected_utility(best.items, relevance, stages))


def test_local_search_finds_the_optimum_of_small_funnels() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        relevance, stages = rng.random(8), PlackettLuceStages(2 * rng.normal(size=(2, 8)), (3, 2))
        draws = stages.draws(400, 0)
        sets = np.array([*combinations(range(8), 5)])
        assert mc_gprp(relevance, draws, 5).utility >= mc_utility(sets, relevance, draws).max() - 0.02


def test_local_search_with_fixed_scores_never_loses_to_its_starts() -> None:
    rng = np.random.default_rng(3)
    relevance, stages = rng.random(60), ScoreStages(rng.normal(size=(2, 60)), (10, 4))
    draws = stages.draws(1, 0)
    start = top_set(score_gprp7(exact_like(stages), relevance), 20)
    found = mc_gprp(relevance, draws, 20, [start])
    starts = np.array([prp_set(relevance, 20), start])
    assert found.utility >= mc_utility(starts, relevance, draws).max()
    assert len(set(found.items)) == 20


def exact_like(stages: ScoreStages) -> np.ndarray:
    """Some inclusion that grows with the scores."""
    return 1 / (1 + np.exp(-stages.scores.sum(0)))


def test_prp_beats_the_surrogate_where_later_stages_ignore_users() -> None:
    """Spec 2.5: the surrogate has no cost for displaced items."""
    rng, gaps = np.random.default_rng(4), []
    for _ in range(10):
        relevance, stages = rng.random(6), PlackettLuceStages(2 * rng.normal(size=(1, 6)), (2,))
        surrogate = top_set(score_gprp7(exact_uniform_marginal(stages, 4), relevance), 4)
        sets = surrogate, prp_set(relevance, 4)
        gaps.append(np.subtract(*(expected_utility(items, relevance, stages) for items in sets)))
    assert np.mean(gaps) < 0


def test_capacity_above_the_number_of_items_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 to 3 items"):
        prp_set(np.zeros(3), 4)
