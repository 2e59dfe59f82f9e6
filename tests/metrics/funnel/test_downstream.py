"""Later stages: exact outcomes, ties, and realisations that follow the same model."""

from itertools import permutations

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import PlackettLuceStages, ScoreStages


def test_score_stage_keeps_the_highest_scores_and_the_smaller_id_of_a_tie() -> None:
    stages = ScoreStages(np.array([[1.0, 2.0, 2.0, 2.0]]), (2,))
    assert stages.outcomes(0, (0, 1, 2, 3)) == {(1, 2): 1.0}
    assert sorted(stages.draws(1, 0).survivors(np.array([3, 2, 1, 0]))[0]) == [1, 2]


def test_stage_with_more_capacity_than_items_keeps_all() -> None:
    stages = PlackettLuceStages(np.zeros((1, 5)), (4,))
    assert stages.outcomes(0, (1, 3)) == {(1, 3): pytest.approx(1.0)}
    assert stages.draws(3, 0).survivors(np.array([1, 3])).tolist() == [[1, 3]] * 3


def test_plackett_luce_outcomes_are_sums_over_orders_of_choice() -> None:
    odds = np.array([1.0, 2.0, 3.0, 4.0])
    found = PlackettLuceStages(np.log(odds)[None], (2,)).outcomes(0, (0, 1, 2, 3))
    for kept, probability in found.items():
        orders = [odds[a] / 10 * odds[b] / (10 - odds[a]) for a, b in permutations(kept)]
        assert probability == pytest.approx(sum(orders), abs=1e-12)


def test_realisations_have_the_frequencies_of_the_outcomes() -> None:
    stages = PlackettLuceStages(np.array([[0.5, -0.2, 1.0, 0.0]]), (2,))
    kept = np.sort(stages.draws(20_000, 1).survivors(np.arange(4)), axis=1)
    for items, probability in stages.outcomes(0, (0, 1, 2, 3)).items():
        share = (kept == items).all(1).mean()
        assert abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / 20_000)


def test_survivors_of_many_sets_are_those_of_each_set() -> None:
    draws = PlackettLuceStages(np.random.default_rng(0).normal(size=(2, 12)), (4, 2)).draws(30, 2)
    sets = np.array([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
    together = draws.survivors(sets)
    assert together.shape == (30, 2, 2)
    for at in range(2):
        assert (np.sort(together[:, at], axis=1) == np.sort(draws.survivors(sets[at]), axis=1)).all()


@pytest.mark.parametrize(("shape", "caps"), [((2, 4), (3,)), ((1, 4), (0,)), ((4,), (1,))])
def test_capacities_that_do_not_fit_the_scores_are_refused(
    shape: tuple[int, ...], caps: tuple[int, ...]
) -> None:
    with pytest.raises(ConfigError, match="one row of scores per capacity"):
        ScoreStages(np.zeros(shape), caps)


def test_infinite_logits_and_no_draws_are_refused() -> None:
    with pytest.raises(ConfigError, match="finite"):
        PlackettLuceStages(np.array([[0.0, -np.inf]]), (1,))
    with pytest.raises(ConfigError, match="at least 1"):
        PlackettLuceStages(np.zeros((1, 2)), (1,)).draws(0, 0)
