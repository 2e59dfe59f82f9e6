"""Solo, leave-one-out and Shapley values of nominators."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.attribution import attribution, refilled_leave_one_out, shapley_sampled
from shortlist.metrics.nomination.coverage import ABSENT, Bools, coverage

COVERS = [{0}, {0, 1}, {1, 2}, {0, 1, 2}, set()]
RANK = np.array([[0 if nominator in one else ABSENT for nominator in range(3)] for one in COVERS])


def test_closed_form_gives_the_known_fractions() -> None:
    found = attribution(RANK, [9, 9, 9])
    found.check()
    assert found.total == 4 / 5
    assert found.shapley.tolist() == pytest.approx([11 / 30, 4 / 15, 1 / 6])
    assert found.leave_one_out.tolist() == pytest.approx([1 / 5, 0, 0])
    assert found.solo.tolist() == pytest.approx([3 / 5, 3 / 5, 2 / 5])


@given(
    st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=20),
    st.tuples(*[st.integers(0, 4)] * 3),
)
def test_closed_form_is_the_mean_over_all_orders(
    rows: list[tuple[int, ...]], limits: tuple[int, ...]
) -> None:
    rank, slots = np.array(rows), np.array(limits)
    found = attribution(rank, slots)
    found.check()
    for nominator in range(3):
        gains = []
        for order in permutations(range(3)):
            before = np.isin(np.arange(3), order[: order.index(nominator)])
            with_it = before | (np.arange(3) == nominator)
            gains.append(coverage(rank, slots * with_it) - coverage(rank, slots * before))
        assert found.shapley[nominator] == pytest.approx(np.mean(gains))


def test_sampled_values_of_coverage_are_near_the_closed_form() -> None:
    limits = np.full(3, 9)
    sampled = shapley_sampled(lambda present: coverage(RANK, limits * present), 3, 400, seed=2)
    exact = attribution(RANK, limits).shapley
    assert sampled.values.sum() == pytest.approx(0.8)
    assert (abs(sampled.values - exact) <= 4 * sampled.error + 1e-9).all()


def test_antithetic_orders_are_exact_for_pairwise_games() -> None:
    def pairs(present: Bools) -> float:
        return float(present[0] * present[1] + 2 * present[2])

    sampled = shapley_sampled(pairs, 3, 4)
    assert sampled.values.tolist() == [0.5, 0.5, 2]
    assert sampled.error.tolist() == [0, 0, 0]
    plain = shapley_sampled(pairs, 3, 3, antithetic=False)
    assert plain.values.sum() == pytest.approx(3)


def test_value_of_the_same_players_is_computed_once() -> None:
    asked = list[bytes]()

    def value(present: Bools) -> float:
        asked.append(present.tobytes())
        return float(present.sum())

    shapley_sampled(value, 3, 50)
    assert len(asked) == len(set(asked)) <= 8


def test_refilled_loss_is_at_most_the_plain_one() -> None:
    rank = np.random.default_rng(4).integers(0, 60, (400, 3))
    limits = [20, 20, 20]
    plain = attribution(rank, limits).leave_one_out
    refilled = refilled_leave_one_out(rank, limits, floor=0, block=1)
    assert (refilled < plain).all()


def test_refilled_loss_is_negative_for_a_nominator_that_wastes_its_slots() -> None:
    rank = np.array([[row, ABSENT] for row in range(20)] + [[0, 0]])
    assert refilled_leave_one_out(rank, [10, 10], floor=0)[1] < 0
    segments = np.arange(21) % 2
    assert refilled_leave_one_out(rank, [[10, 10], [15, 5]], segments, floor=0)[1] < 0


def test_refilled_loss_is_unknown_where_nothing_can_take_the_slots() -> None:
    rank = np.array([[0, ABSENT], [1, ABSENT]])
    assert np.isnan(refilled_leave_one_out(rank, [5, 5])[0])


def test_limits_of_several_budgets_are_refused() -> None:
    with pytest.raises(ConfigError, match="the same budget in every segment, got"):
        refilled_leave_one_out(RANK, [[1, 1, 1], [2, 2, 2]], np.zeros(5, np.int64))


@pytest.mark.parametrize(("n", "times"), [(0, 9), (3, 3)])
def test_too_few_permutations_are_refused(n: int, times: int) -> None:
    with pytest.raises(ConfigError, match="at least 4 permutations"):
        shapley_sampled(lambda present: 0.0, n, times)


def test_no_positives_have_no_attribution() -> None:
    found = attribution(np.zeros((0, 2), np.int64), [1, 1])
    assert np.isnan(found.total)
    assert np.isnan(found.shapley).all()


def test_settings_of_each_nominator_are_those_of_the_others() -> None:
    rank = np.array([[0, ABSENT], [1, ABSENT], [ABSENT, 0], [0, 0]])
    plain = refilled_leave_one_out(rank, [2, 2], floor=0, block=1)
    assert np.isfinite(plain).all()
    assert np.array_equal(refilled_leave_one_out(rank, [2, 2], floor=[0, 0], block=1), plain)
    assert np.isfinite(refilled_leave_one_out(rank, [2, 2])).all()
    timed = refilled_leave_one_out(rank, [2, 2], floor=0, block=1, costs=[[1, 1], [1, 1]], latency=30.0)
    assert np.array_equal(timed, plain)


def test_bad_settings_are_refused_and_not_unknown() -> None:
    with pytest.raises(ConfigError, match="shrink: expected a finite number"):
        refilled_leave_one_out(np.zeros((3, 2), np.int64), [2, 2], floor=0, shrink=-1)
