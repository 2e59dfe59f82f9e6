"""The slot-price rule: close to the optimum, equal to PRP for constant inclusion, never below PRP."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import PlackettLuceStages
from shortlist.metrics.funnel.inclusion import exact_uniform_marginal
from shortlist.metrics.funnel.selection import (
    exact_gprp,
    expected_utility,
    prp_set,
    score_gprp7,
    top_set,
)
from shortlist.metrics.funnel.slot_price import priced, score_slot_price


def utilities_of_60_instances() -> np.ndarray:
    """[60, 5]: exact optimum, best iterate, last iterate, surrogate (7), PRP; n = 7, capacities 5 / 3 / 2."""
    rng, rows = np.random.default_rng(3), []
    for _ in range(60):
        relevance = rng.random(7)
        stages = PlackettLuceStages(2 * ((relevance - 0.5) + rng.normal(size=(2, 7))), (3, 2))
        inclusion = exact_uniform_marginal(stages, 5)
        value = lambda items, r=relevance, later=stages: expected_utility(items, r, later)  # noqa: E731
        found = score_slot_price(inclusion, relevance, 5, 2, value)
        surrogate = value(top_set(score_gprp7(inclusion, relevance), 5))
        best = exact_gprp(relevance, stages, 5).utility
        rows.append([best, found.utility, found.utilities[-1], surrogate, value(prp_set(relevance, 5))])
    return np.array(rows)


def test_slot_price_closes_most_of_the_gap_that_the_surrogate_widens() -> None:
    """Spec test 29, with its numbers: .0984 exact, .0885 slot price (last iterate), -.0992 surrogate (7)."""
    exact, best, last, surrogate, prp = utilities_of_60_instances().T
    for other in (best, last, surrogate, prp):
        assert (exact >= other - 1e-12).all()
    assert (best >= prp).all()
    means = [(one - prp).mean() for one in (exact, last, surrogate)]
    assert means == pytest.approx([0.0984, 0.0885, -0.0992], abs=5e-5)
    assert (best - prp).mean() >= 0.7 * (exact - prp).mean()
    worse = [int((one < prp - 1e-12).sum()) for one in (surrogate, last)]
    assert worse == [32, 6]
    assert [int((abs(one - exact) < 1e-12).sum()) for one in (surrogate, prp)] == [1, 8]


def test_slot_price_equals_prp_where_inclusion_is_constant() -> None:
    """Spec test 28."""
    relevance = np.random.default_rng(0).random(20)
    found = score_slot_price(
        np.full(20, 0.3), relevance, 8, 3, lambda items: float(relevance[[*items]].sum())
    )
    assert found.items == prp_set(relevance, 8)
    assert len(set(found.utilities)) == 1


def test_best_iterate_is_kept_where_the_iteration_overshoots() -> None:
    values = iter([1.0, 5.0, 0.5, 0.4, 0.3])
    relevance = np.random.default_rng(1).random(9)
    found = score_slot_price(relevance[::-1].copy(), relevance, 4, 2, lambda items: next(values))
    assert found.utility == 5.0
    assert found.price == 0.5
    assert found.utilities == (1.0, 5.0, 0.5, 0.4, 0.3)
    assert (found.scores == priced(relevance[::-1], relevance, 0.5)).all()


def test_prp_is_returned_where_no_iterate_is_better() -> None:
    values = iter([1.0, 0.9, 0.8])
    relevance = np.random.default_rng(2).random(9)
    found = score_slot_price(relevance, relevance, 4, 2, lambda items: next(values), iterations=2, price=0.1)
    assert found.items == prp_set(relevance, 4)
    assert found.price is None
    assert (found.scores == relevance).all()


def test_candidates_below_the_price_fill_the_set_with_items_that_rarely_survive() -> None:
    scores = priced(np.array([0.9, 0.01, 0.5]), np.array([0.2, 0.2, 0.9]), price=0.5)
    assert top_set(scores, 2) == (1, 2)


def test_no_slots_are_refused() -> None:
    with pytest.raises(ConfigError, match="slots >= 1"):
        score_slot_price(np.ones(3), np.ones(3), 2, 0, lambda items: 0.0)
