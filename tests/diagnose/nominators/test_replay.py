from itertools import permutations

import numpy as np
import pytest

from shortlist.diagnose.knobs.rewritten import without_nominator
from shortlist.diagnose.nominators.replay import PoolReplay, exact_shapley, shapley_of_slates
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Optional
from shortlist.pipeline.offline import offline
from tests.diagnose.nominators.lists_of import own, relevant
from tests.diagnose.test_follow_items import random_requests
from tests.worlds import N_ITEMS, RandomNominator, RandomScorer, tiny

POOL = (
    RandomNominator(name="a", salt=1)
    + Optional(RandomNominator(name="b", salt=2))
    + RandomNominator(name="c")
)


@pytest.mark.parametrize("pipeline", [tiny(), POOL % 9 >> RandomScorer(name="rank") % 4, POOL])
def test_slates_without_a_nominator_are_those_of_the_pipeline_without_it(pipeline):
    whole, sample = offline(pipeline), sample_users(random_requests(15), N_ITEMS, batch=4)
    replay, names = PoolReplay.of(whole, sample), [part.title for part in whole.nominators]
    for number, name in enumerate(names):
        expected = hits_per_request(without_nominator(whole, name), sample)
        assert replay.hits(np.arange(len(names)) != number).tolist() == expected.tolist()
    assert replay.hits(np.zeros(len(names), np.bool_)).tolist() == [0] * 15


def test_shapley_values_of_any_game_are_the_mean_over_all_orders():
    table = np.random.default_rng(0).integers(0, 9, (16, 3))

    def value(present):
        return table[int(present @ (2 ** np.arange(4)))]

    expected, orders = np.zeros((3, 4)), list(permutations(range(4)))
    for order in orders:
        present = np.zeros(4, np.bool_)
        for number in order:
            before = value(present)
            present[number] = True
            expected[:, number] += value(present) - before
    np.testing.assert_allclose(exact_shapley(value, 4), expected / len(orders), atol=1e-12)


def test_shapley_values_of_slates_add_up_to_their_recall():
    whole, sample = offline(tiny()), sample_users(random_requests(40), N_ITEMS)
    found = shapley_of_slates(PoolReplay.of(whole, sample))
    recall = sample.recall(hits_per_request(whole, sample)).mean
    assert sum(one.mean for one in found) == pytest.approx(recall)
    assert all(one.low <= one.mean <= one.high for one in found)


def test_nominator_that_displaces_relevant_items_has_a_negative_value():
    pool = own("noise", [[8, 9]] * 40) + own("good", [[1, 2]] * 40) >> RandomScorer(name="rank", sides=1) % 2
    found = shapley_of_slates(PoolReplay.of(as_pipeline(pool), sample_users(relevant([[1, 2]] * 40), 10)))
    assert found[0].mean < 0 < found[1].mean


def test_orders_of_many_nominators_are_sampled_and_have_no_interval():
    parts = [own(f"n{number}", [[number]] * 30) for number in range(6)]
    pool = sum(parts[1:], parts[0])
    found = shapley_of_slates(
        PoolReplay.of(as_pipeline(pool), sample_users(relevant([[0, 1, 2]] * 30), 10)), 8
    )
    assert [one.mean for one in found] == pytest.approx([1 / 3] * 3 + [0] * 3)
    assert all(one.low is None for one in found)
