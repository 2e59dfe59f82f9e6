import numpy as np
import pytest

from shortlist.data import HeldOut, Interactions
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.errors import DataError
from shortlist.grammar import as_pipeline
from tests.diagnose.held_out import held_out_of
from tests.worlds import listed


def test_sample_counts_relevant_items_by_user():
    sample = sample_users(held_out_of([([0, 1], [2, 3]), ([1], [4])]), 10)
    assert sample.n_relevant.tolist() == [2, 1]
    assert sample.by_user(np.array([5, 7])).tolist() == [5, 7]
    assert sample.n_users == 2


def test_users_are_sampled_by_seed():
    held_out = held_out_of([([0], [row % 9]) for row in range(50)])
    a, b, c = (sample_users(held_out, 10, 12, seed) for seed in (0, 0, 1))
    assert len(a) == 12
    assert a.users.tolist() == b.users.tolist() != c.users.tolist()
    assert len(sample_users(held_out, 10, 500)) == 50


def test_history_keeps_items_of_the_catalogue_in_order():
    sample = sample_users(held_out_of([([3, 9, 1], [2]), ([9, 9, 9], [9])]), 5)
    assert sample.batches[0].query.history.tolist() == [[-1, 3, 1], [-1, -1, -1]]
    assert sample.n_relevant.tolist() == [1, 1]


def test_hits_are_counted_per_request_across_batches():
    sample = sample_users(held_out_of([([0], [1, 2]), ([0], [2]), ([0], [7])]), 10, batch=2)
    assert hits_per_request(as_pipeline(listed("a", [1, 2, 3])), sample).tolist() == [2, 1, 0]
    assert sample.recall(np.array([2, 1, 0])).mean == pytest.approx(2 / 3)
    assert sample.mean(np.array([1, 0, 0])).mean == pytest.approx(1 / 3)


def test_requests_of_one_user_are_summed():
    events = Interactions.of(np.zeros(4, int), np.arange(4), np.arange(4))
    held_out = HeldOut(events, np.array([0, 0]), np.array([1, 2]), np.array([2, 4]))
    sample = sample_users(held_out, 10)
    assert (len(sample), sample.n_users, sample.by_user(np.array([1, 2])).tolist()) == (2, 1, [3])


def test_no_users_is_an_error():
    with pytest.raises(DataError, match="train with another --protocol"):
        sample_users(held_out_of([([0], [1])]).take(slice(0, 0)), 10)
    with pytest.raises(DataError, match="1 user or more"):
        sample_users(held_out_of([([0], [1])]), 10, 0)
