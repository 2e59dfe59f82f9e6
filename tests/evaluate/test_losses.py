import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Query
from shortlist.errors import ConservationError, DataError
from shortlist.evaluate.losses import (
    Losses,
    NominatorHits,
    StageTrace,
    batch_losses,
    decompose,
    fates,
    find_items,
    total_losses,
)
from shortlist.grammar import as_pipeline
from shortlist.pipeline.trace import RETURNED
from shortlist.stages import Seen
from tests.worlds import found, listed, run_checked


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


def test_losses_of_three_stages_worked_out_by_hand():
    losses = decompose(nested([8, 6, 3], 10))
    assert losses.alive.tolist() == [10, 8, 6, 3]
    assert losses.first_losses.tolist() == [2, 2, 3]
    assert losses.conditional == (0.2, 0.25, 0.5)
    assert losses.error == pytest.approx(0.7)
    assert losses.product_error == pytest.approx(0.7, abs=1e-12)


@given(traces())
@settings(max_examples=200, deadline=None)
def test_losses_add_up_in_whole_numbers_and_the_product_form_agrees(trace):
    losses = decompose(trace)
    assert losses.alive.dtype == losses.lost.dtype == np.int64
    assert losses.first_losses.sum() == losses.alive[0] - losses.alive[-1]
    assert losses.alive[1:].tolist() == trace.alive.sum(0).tolist()
    if losses.alive[0]:
        assert losses.product_error == pytest.approx(losses.error, abs=1e-12)
        telescoped = sum(
            rate * np.prod([1 - before for before in losses.conditional[:place]])
            for place, rate in enumerate(losses.conditional)
            if rate is not None
        )
        assert telescoped == pytest.approx(losses.error, abs=1e-12)


def test_error_of_two_stages_is_retrieval_error_plus_ranking_error():
    losses = decompose(nested([6, 2], 8))
    retrieval, ranking = losses.conditional
    assert losses.error == pytest.approx(retrieval + ranking * (1 - retrieval), abs=1e-12)


def test_proposition_4_1_holds_on_the_losses_of_a_random_two_stage_pipeline():
    """P_err = P_ret + P_rank (1 - P_ret), where each rate is counted from the predictions themselves."""
    rng = np.random.default_rng(0)
    relevant = rng.integers(0, 30, 500)
    retrieved = np.stack([rng.permutation(30)[:8] for _ in range(500)])
    in_pool, first = (retrieved == relevant[:, None]).any(1), retrieved[:, 0] == relevant
    losses = decompose(StageTrace(np.column_stack([in_pool, first]), ("pool", "rank"), np.arange(500)))
    p_ret, p_rank = 1 - in_pool.mean(), 1 - first[in_pool].mean()
    assert losses.conditional == pytest.approx((p_ret, p_rank), abs=1e-12)
    assert losses.error == pytest.approx(p_ret + p_rank * (1 - p_ret), abs=1e-12)
    assert losses.error == pytest.approx(1 - first.mean(), abs=1e-12)


def test_stage_without_incoming_items_has_no_rate():
    losses = decompose(nested([0, 0], 4))
    assert losses.conditional == (1.0, None)
    assert losses.error == losses.product_error == 1.0


def test_no_pairs_have_no_error():
    losses = decompose(nested([0], 0))
    assert (losses.error, losses.product_error, losses.recall().mean) == (None, None, None)
    assert losses.conditional == (None,)


@given(traces(rescue=True))
@settings(max_examples=100, deadline=None)
def test_rescued_items_are_counted_beside_lost_ones(trace):
    losses = decompose(trace)
    lost, rescued = losses.lost.sum(0), losses.rescued.sum(0)
    assert (losses.alive[:-1] - lost + rescued).tolist() == losses.alive[1:].tolist()
    before = trace.before
    assert lost.tolist() == (before & ~trace.alive).sum(0).tolist()


def test_item_that_comes_back_is_refused_with_the_stage():
    alive = np.array([[True, False, True]])
    with pytest.raises(ConservationError, match="'third'"):
        StageTrace(alive, ("first", "second", "third"), np.zeros(1, np.int64))
    assert decompose(
        StageTrace(alive, ("first", "second", "third"), np.zeros(1, np.int64), rescue=True)
    ).rescued.tolist() == [[0, 0, 1]]


def test_weights_of_one_over_the_relevant_count_give_the_mean_recall_of_users():
    rng = np.random.default_rng(3)
    user = rng.integers(0, 12, 90)
    alive = rng.random((90, 1)) < 0.4
    sizes = np.bincount(user, minlength=12)
    losses = decompose(StageTrace(alive, ("all",), user, 1 / sizes[user]))
    recalls = [alive[user == one, 0].mean() for one in np.unique(user)]
    assert losses.recall().mean == pytest.approx(np.mean(recalls), abs=1e-12)


@given(traces(), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_merged_shards_equal_the_whole(trace, at):
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
        one.merge(Losses(("other",), one.users, one.relevant, one.lost, one.rescued))
    with pytest.raises(DataError, match="same stages"):
        StageTrace.joined([])


def test_intervals_contain_the_shares_and_narrow_with_users():
    rng = np.random.default_rng(0)
    wide = [decompose(random_trace(rng, users)).intervals(0)[0] for users in (40, 4000)]
    assert all(one.low < one.mean < one.high for one in wide)
    assert wide[1].high - wide[1].low < wide[0].high - wide[0].low


def random_trace(rng, users):
    alive = np.logical_and.accumulate(rng.random((users * 3, 2)) < 0.6, axis=1)
    return StageTrace(alive, ("a", "b"), np.repeat(np.arange(users), 3))


RELEVANT = torch.tensor([[1, 4, 7], [5, -1, -1]])


def two_nominators():
    pipeline = as_pipeline(
        listed("a", [1, 2, 3, 4]) + listed("b", [4, 5]) >> Seen(name="seen") >> Seen(name="cut") % 2
    )
    return run_checked(pipeline, Query.of([[1], [9]])).trace


def test_every_relevant_item_is_lost_at_one_stage_or_returned():
    # Request 0: 1 is in the history, 4 (nominated twice, so first by rank fusion) stays, 7 is not nominated.
    losses, stages = total_losses([batch_losses(two_nominators(), RELEVANT, np.array([3, 8]))])
    assert stages.relevant == 4
    by_name = {stage.name: stage for stage in stages.stages}
    assert (by_name["pool"].entered, by_name["pool"].lost) == (4, 1)
    assert (by_name["seen"].entered, by_name["seen"].lost, by_name["seen"].removed) == (3, 1, 1)
    assert (by_name["cut"].entered, by_name["cut"].lost, by_name["cut"].removed) == (2, 1, 0)
    assert stages.returned == 1
    assert stages.relevant == stages.returned + sum(stage.lost for stage in stages.stages)
    assert losses.users.tolist() == [3, 8]
    assert losses.relevant.tolist() == [3, 1]


def test_nominators_are_credited_for_all_and_for_unique_relevant_items():
    _, stages = total_losses([batch_losses(two_nominators(), RELEVANT, np.arange(2))])
    assert stages.nominators == {"a": NominatorHits(2, 1), "b": NominatorHits(2, 1)}


def test_fates_say_where_each_relevant_item_left():
    fate = fates(two_nominators(), RELEVANT)
    assert fate.left_at.tolist() == [[1, RETURNED, 0], [2, 0, 0]]
    assert fate.removed.tolist() == [[True, False, False], [False, False, False]]
    assert fate.alive(3)[0].tolist() == [[True, False, False], [True, True, True], [False, False, False]]
    assert not fate.alive(3)[1, 1:].any()  # padding


def test_items_are_found_among_valid_candidates_only():
    candidates = found([0.1, None, 0.3], [None, None, None])
    places, there = find_items(candidates, torch.tensor([[2, 1, -1], [0, 2, -1]]))
    assert there.tolist() == [[True, False, False], [False, False, False]]
    assert candidates.items[0, places[0, 0]] == 2


def test_batches_add_up_to_one_batch_of_all_requests():
    pipeline = as_pipeline(listed("a", [1, 2, 3]) >> Seen(name="cut") % 1)
    relevant = torch.tensor([[1], [2], [9]])
    whole = run_checked(pipeline, Query.of([[0], [0], [0]])).trace
    _, one = total_losses([batch_losses(whole, relevant, np.arange(3))])
    parts = [run_checked(pipeline, Query.of([[0]])).trace for _ in range(3)]
    _, many = total_losses(
        [batch_losses(part, relevant[row : row + 1], np.array([row])) for row, part in enumerate(parts)]
    )
    assert [(s.entered, s.survived, s.lost, s.removed, s.candidates) for s in one.stages] == [
        (s.entered, s.survived, s.lost, s.removed, s.candidates) for s in many.stages
    ]
    assert one.nominators == many.nominators
    assert one.returned == many.returned == 1


def test_table_of_losses_has_a_line_per_stage():
    _, stages = total_losses([batch_losses(two_nominators(), RELEVANT, np.arange(2))])
    assert [line.split()[0] for line in str(stages).splitlines()] == ["stage", "pool", "seen", "cut"]
    assert str(stages).splitlines()[1].split()[1:] == ["4", "3", "1", "25.0%"]
