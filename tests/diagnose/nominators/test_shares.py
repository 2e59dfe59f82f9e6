from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.diagnose.nominators.lists import measure_lists
from shortlist.diagnose.nominators.shares import (
    credits_of,
    pool_recall,
    refilled_limits,
    refilled_losses,
    shares_of,
)
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import as_pipeline
from shortlist.metrics.nomination.attribution import attribution
from shortlist.metrics.nomination.coverage import ABSENT, covered
from tests.diagnose.nominators.lists_of import own, relevant

EXAMPLE = own("a", [[0, 1, 3]]) + own("b", [[1, 2, 3]]) + own("c", [[2, 3]])  # {a}, {a, b}, {b, c}, all, none


def lists_of(pipeline, held_out, n_items=100):
    return measure_lists(as_pipeline(pipeline), sample_users(held_out, n_items))


def means(shares, name):
    return [getattr(one, name).mean for one in shares]


def test_example_by_hand():
    """T28."""
    lists = lists_of(EXAMPLE, relevant([[0, 1, 2, 3, 4]]))
    found = shares_of(lists)
    assert pool_recall(lists).mean == pytest.approx(4 / 5)
    assert means(found, "solo") == pytest.approx([3 / 5, 3 / 5, 2 / 5])
    assert means(found, "shapley") == pytest.approx([11 / 30, 4 / 15, 1 / 6])
    assert means(found, "leave_one_out") == pytest.approx([1 / 5, 0, 0])
    assert found[0].refilled is None


@given(st.integers(0, 200), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_shapley_values_are_the_mean_gain_over_all_orders(seed, count):
    found = np.random.default_rng(seed).random((12, count)) < 0.4
    gains = np.zeros((12, count))
    orders = list(permutations(range(count)))
    for order in orders:
        for place, number in enumerate(order):
            gains[:, number] += found[:, number] & ~found[:, order[:place]].any(1)
    solo, shapley, alone = credits_of(found)
    np.testing.assert_allclose(shapley, gains / len(orders), atol=1e-12)
    assert (alone <= shapley).all()
    assert (shapley <= solo).all()
    np.testing.assert_allclose(shapley.sum(1), found.any(1))


def test_users_with_as_many_relevant_items_give_the_attribution_of_the_metrics():
    rng = np.random.default_rng(3)
    rows = [[rng.permutation(30)[:12].tolist() for _ in range(40)] for _ in range(3)]
    pool = own("a", rows[0], limit=5) + own("b", rows[1], limit=9) + own("c", rows[2], limit=3)
    lists = lists_of(pool, relevant([rng.permutation(30)[:4].tolist() for _ in range(40)]))
    expected, found = attribution(lists.rank, lists.limits), shares_of(lists)
    assert means(found, "solo") == pytest.approx(expected.solo.tolist())
    assert means(found, "shapley") == pytest.approx(expected.shapley.tolist())
    assert means(found, "leave_one_out") == pytest.approx(expected.leave_one_out.tolist())
    assert all(one.shapley.low < one.shapley.mean < one.shapley.high for one in found)


def halves(lists):
    return lists.user % 2


def test_refilled_loss_is_0_where_another_list_goes_on_with_the_same_items():
    """The second nominator finds at places 5 to 8 what the first finds at places 1 to 4."""
    first = [[1, 2, 3, 4]] * 40
    second = [[11, 12, 13, 14, 1, 2, 3, 4, 5]] * 40
    lists = lists_of(own("a", first, limit=4) + own("b", second, limit=4), relevant([[1, 2, 3, 4, 11]] * 40))
    found = shares_of(lists, refilled=refilled_losses(lists, halves(lists)))
    assert means(found, "leave_one_out") == pytest.approx([4 / 5, 1 / 5])
    assert means(found, "refilled") == pytest.approx([0.0, 1 / 5])
    assert refilled_limits(lists, 0, halves(lists) == 0).tolist() == [0, 8]


@given(st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_refilled_loss_is_at_most_leave_one_out_and_keeps_the_number_of_candidates(seed):
    rng = np.random.default_rng(seed)
    rows = [[rng.permutation(60)[:40].tolist() for _ in range(24)] for _ in range(3)]
    pool = own("a", rows[0], limit=4) + own("b", rows[1], limit=8) + own("c", rows[2], limit=6)
    lists = lists_of(pool, relevant([rng.permutation(60)[:3].tolist() for _ in range(24)]))
    lost, alone = refilled_losses(lists, halves(lists)), credits_of(covered(lists.rank, lists.limits))[2]
    assert (lost <= alone + 1e-12).all()
    for number in range(3):
        limits = refilled_limits(lists, number, halves(lists) == 0)
        assert limits[number] == 0
        assert (np.delete(limits - lists.limits, number) >= 0).all()
        assert lists.per_request(limits) <= 1.005 * lists.per_request(lists.limits)


def test_single_nominator_has_nobody_to_fill_its_places():
    lists = lists_of(own("a", [[1]] * 4), relevant([[1, 2]] * 4))
    (found,) = shares_of(lists, refilled=refilled_losses(lists, halves(lists)))
    assert {one.mean for one in (found.solo, found.shapley, found.leave_one_out, found.refilled)} == {0.5}


def test_identical_lists_share_everything_and_nobody_is_needed():
    rows = [[1, 2, 3]] * 6
    lists = lists_of(own("a", rows, limit=3) + own("b", rows, limit=3), relevant([[1, 2, 9]] * 6))
    found = shares_of(lists, refilled=refilled_losses(lists, halves(lists)))
    assert means(found, "solo") == pytest.approx([2 / 3, 2 / 3])
    assert means(found, "shapley") == pytest.approx([1 / 3, 1 / 3])
    assert means(found, "leave_one_out") == means(found, "refilled") == [0, 0]


def test_nominator_without_candidates_has_no_part_in_anything():
    lists = lists_of(own("a", [[]] * 6) + own("b", [[1]] * 6), relevant([[1, 2]] * 6))
    found = shares_of(lists, refilled=refilled_losses(lists, halves(lists)))
    assert (lists.rank[:, 0] == ABSENT).all()
    assert [means(found, one) for one in ("solo", "shapley", "leave_one_out", "refilled")] == [[0, 0.5]] * 4
