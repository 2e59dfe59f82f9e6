"""Proposition 2, corrected: the largest gap of GPRP over PRP."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import Draws, PlackettLuceStages, ScoreStages
from shortlist.metrics.funnel.inclusion import mc_utility
from shortlist.metrics.funnel.selection import (
    exact_gprp,
    expected_utility,
    mc_gprp,
    prp_set,
    score_gprp7,
    top_set,
)
from shortlist.metrics.funnel.sup_gap import gap_case, sup_gap

TRIPLES = {
    (4, 3, 1): 1,
    (6, 4, 2): 2,
    (5, 4, 2): 1,
    (5, 3, 2): 1,
    (6, 4, 3): 1,
    (7, 5, 2): 2,
    (7, 6, 3): 1,
}
P = np.array([0.1, 0.2, 0.5, 0.0])
R = np.array([1.0, 1.0, 0.01, 0.0])


def test_utilities_of_the_example_of_the_paper() -> None:
    """Spec test 26: the table of 2.2, items numbered from 0 here; the surrogate (7) picks the PRP set."""
    stages = ScoreStages(P[None], (1,))
    table = {items: expected_utility(items, R, stages) for items in combinations(range(4), 3)}
    assert table == pytest.approx({(0, 1, 2): 0.01, (0, 1, 3): 1.0, (0, 2, 3): 0.01, (1, 2, 3): 0.01})
    assert exact_gprp(R, stages, 3).items == (0, 1, 3)
    assert top_set(score_gprp7(P, R), 3) == prp_set(R, 3) == (0, 1, 2)


def test_example_of_the_paper_with_plackett_luce_weights() -> None:
    """Spec test 26: .38125 against 1; the item of weight 0 has the logit -700."""
    stages = PlackettLuceStages(np.array([[*np.log(P[:3]), -700.0]]), (1,))
    assert expected_utility((0, 1, 2), R, stages) == pytest.approx(0.38125, abs=1e-12)
    assert expected_utility((0, 1, 3), R, stages) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("triple", "gap"), TRIPLES.items())
def test_largest_gap_of_a_search_is_the_formula(triple: tuple[int, int, int], gap: int) -> None:
    """Spec test 26: seven triples; all relevances in {1, eps, 0}, in every order of the later scores."""
    assert sup_gap(*triple) == gap
    assert largest_gap(*triple, eps=1e-3) == pytest.approx(gap, abs=4e-3)
    assert largest_gap(*triple, eps=1e-3) <= gap


def largest_gap(n: int, c_stage: int, c_final: int, eps: float) -> float:
    """Over all relevances of items that are in descending order of the later score."""
    relevance = np.array([*product((1.0, eps, 0.0), repeat=n)])
    sets = [*combinations(range(n), c_stage)]
    utility = np.stack([relevance[:, items[:c_final]].sum(1) for items in sets], axis=1)
    number = {items: at for at, items in enumerate(sets)}
    prp = [number[prp_set(one, c_stage)] for one in relevance]
    return float((utility.max(1) - utility[np.arange(len(relevance)), prp]).max())


@pytest.mark.parametrize(("c_stage", "c_final", "prp", "best"), [(50, 6, 0.006, 6.0), (8, 3, 0.003, 3.0)])
def test_construction_loses_all_slots_of_prp(c_stage: int, c_final: int, prp: float, best: float) -> None:
    """Spec test 26: 0.006 against 6 and 0.003 against 3 with eps = .001."""
    case = gap_case(c_stage, c_final, 0.001)
    draws = case.downstream.draws(1, 0)
    items = np.array(prp_set(case.relevance, c_stage))
    assert float(mc_utility(items, case.relevance, draws)) == pytest.approx(prp)
    without = [*range(c_stage - c_final), *range(c_stage, c_stage + c_final)]
    assert float(mc_utility(np.array(without), case.relevance, draws)) == pytest.approx(best)
    assert mc_gprp(case.relevance, draws, c_stage, [tuple(without)]).utility == pytest.approx(best)


class Adversary:
    """A stage that shows the worst items of one set and the best items of every other."""

    n_items, caps = 8, (3,)

    def __init__(self, relevance: Sequence[float], target: tuple[int, ...]) -> None:
        self.relevance, self.target = relevance, target

    def outcomes(self, stage: int, items: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        order = sorted(items, key=lambda item: self.relevance[item], reverse=items != self.target)
        return {tuple(sorted(order[:3])): 1.0}

    def draws(self, count: int, seed: int) -> Draws:
        raise NotImplementedError


def test_stages_that_depend_on_the_set_reach_the_gap_with_one_dropped_item() -> None:
    """Spec 2.2: min(c_T, c_i - c_T) for an arbitrary downstream, here 8 -> 7 -> 3."""
    relevance = np.array([1.0, 1, 1, 1, 1e-3, 1e-3, 1e-3, 0])
    adversary = Adversary(relevance.tolist(), prp_set(relevance, 7))
    gap = exact_gprp(relevance, adversary, 7).utility - expected_utility(range(7), relevance, adversary)
    assert gap == pytest.approx(sup_gap(8, 7, 3, fixed_scores=False), abs=4e-3)
    assert sup_gap(8, 7, 3) == 1


def test_gap_is_the_slots_only_where_the_stage_keeps_twice_as_many() -> None:
    assert sup_gap(500, 50, 6) == 6
    assert sup_gap(500, 8, 6) == 2
    assert sup_gap(8, 8, 3, fixed_scores=False) == 0


def test_capacities_out_of_order_are_refused() -> None:
    with pytest.raises(ConfigError, match="funnel order"):
        sup_gap(3, 4, 1)
