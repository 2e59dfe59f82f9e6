import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConservationError, DataError
from shortlist.evaluate.losses import Losses, StageTrace, decompose


def nested(counts, n, users=None):
    """The first counts[s] of n pairs are there after stage s."""
    alive = np.arange(n)[:, None] < np.array(counts)[None, :]
    names = tuple(f"s{number}" for number in range(len(counts)))
    return StageTrace(alive, names, np.arange(n) if users is None else users)


@st.composite
def traces(draw, rescue=False):
    n, stages = draw(st.integers(0, 40)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    alive = rng.random((n, stages)) < draw(st.floats(0, 1))
    if not rescue:
        alive = np.logical_and.accumulate(alive, axis=1)
    return StageTrace(alive, tuple("abcde"[:stages]), rng.integers(0, 9, n), rescue=rescue)


def test_the_worked_numbers_of_three_stages():
    told = decompose(nested([8, 6, 3], 10))
    assert told.alive.tolist() == [10, 8, 6, 3]
    assert told.first_losses.tolist() == [2, 2, 3]
    assert told.conditional == (0.2, 0.25, 0.5)
    assert told.error == pytest.approx(0.7)
    assert told.product_error == pytest.approx(0.7, abs=1e-12)


@given(traces())
@settings(max_examples=200, deadline=None)
def test_losses_add_up_in_whole_numbers_and_the_product_form_agrees(trace):
    told = decompose(trace)
    assert told.alive.dtype == told.lost.dtype == np.int64
    assert told.first_losses.sum() == told.alive[0] - told.alive[-1]
    assert told.alive[1:].tolist() == trace.alive.sum(0).tolist()
    if told.alive[0]:
        assert told.product_error == pytest.approx(told.error, abs=1e-12)
        telescoped = sum(
            rate * np.prod([1 - before for before in told.conditional[:place]])
            for place, rate in enumerate(told.conditional)
            if rate is not None
        )
        assert telescoped == pytest.approx(told.error, abs=1e-12)


def test_two_stages_are_the_sum_of_missed_and_misranked():
    told = decompose(nested([6, 2], 8))
    missed, misranked = told.conditional
    assert told.error == pytest.approx(missed + misranked * (1 - missed), abs=1e-12)


def test_a_stage_that_nothing_came_to_has_no_rate():
    told = decompose(nested([0, 0], 4))
    assert told.conditional == (1.0, None)
    assert told.error == told.product_error == 1.0


def test_no_pairs_at_all_have_no_error():
    told = decompose(nested([0], 0))
    assert (told.error, told.product_error, told.recall().mean) == (None, None, None)
    assert told.conditional == (None,)


@given(traces(rescue=True))
@settings(max_examples=100, deadline=None)
def test_what_is_put_back_is_counted_beside_what_is_lost(trace):
    told = decompose(trace)
    lost, rescued = told.lost.sum(0), told.rescued.sum(0)
    assert (told.alive[:-1] - lost + rescued).tolist() == told.alive[1:].tolist()
    before = trace.before
    assert lost.tolist() == (before & ~trace.alive).sum(0).tolist()


def test_an_item_that_comes_back_is_refused_and_the_stage_is_named():
    alive = np.array([[True, False, True]])
    with pytest.raises(ConservationError, match="'third'"):
        StageTrace(alive, ("first", "second", "third"), np.zeros(1, np.int64))
    assert decompose(
        StageTrace(alive, ("first", "second", "third"), np.zeros(1, np.int64), rescue=True)
    ).rescued.tolist() == [[0, 0, 1]]


def test_weights_of_one_over_the_wanted_give_the_mean_recall_of_users():
    rng = np.random.default_rng(3)
    user = rng.integers(0, 12, 90)
    alive = rng.random((90, 1)) < 0.4
    sizes = np.bincount(user, minlength=12)
    told = decompose(StageTrace(alive, ("all",), user, 1 / sizes[user]))
    recalls = [alive[user == one, 0].mean() for one in np.unique(user)]
    assert told.recall().mean == pytest.approx(np.mean(recalls), abs=1e-12)


@given(traces(), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_shards_added_up_are_the_whole(trace, at):
    parts = [
        decompose(StageTrace(trace.alive[rows], trace.names, trace.user[rows]))
        for rows in (slice(at), slice(at, None))
    ]
    whole, merged = decompose(trace), parts[0].merge(parts[1])
    assert whole.users.tolist() == merged.users.tolist()
    assert whole.per_user.tolist() == merged.per_user.tolist()
    assert whole.intervals(1, 20) == merged.intervals(1, 20)


def test_joined_traces_are_one_trace():
    a, b = nested([2, 1], 3), nested([1, 1], 2)
    both = StageTrace.joined([a, b])
    assert decompose(both).alive.tolist() == [5, 3, 2]


def test_shapes_and_shards_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="expected alive"):
        StageTrace(np.ones((2, 3), bool), ("a",), np.zeros(2, np.int64))
    with pytest.raises(DataError, match="weight"):
        StageTrace(np.ones((1, 1), bool), ("a",), np.zeros(1, np.int64), np.array([-1.0]))
    one = decompose(nested([1], 2))
    with pytest.raises(DataError, match="same stages"):
        one.merge(Losses(("other",), one.users, one.wanted, one.lost, one.rescued))
    with pytest.raises(DataError, match="same stages"):
        StageTrace.joined([])


def test_intervals_lie_around_the_shares_and_narrow_with_users():
    rng = np.random.default_rng(0)
    wide = [decompose(nested_by_chance(rng, users)).intervals(0)[0] for users in (40, 4000)]
    assert all(one.low < one.mean < one.high for one in wide)
    assert wide[1].high - wide[1].low < wide[0].high - wide[0].low


def nested_by_chance(rng, users):
    alive = np.logical_and.accumulate(rng.random((users * 3, 2)) < 0.6, axis=1)
    return StageTrace(alive, ("a", "b"), np.repeat(np.arange(users), 3))
