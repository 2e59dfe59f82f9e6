import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.train.two_time_scale.sequences import (
    after_first,
    items_before,
    last_events,
    of_new_users,
    padded,
    whole,
)

LENGTHS = (3, 0, 8, 1, 12)


def log():
    users = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    return Interactions.of(users, np.arange(len(users)) % 10, n_users=len(LENGTHS), n_items=10)


def spans(sequences):
    return sorted(
        zip(sequences.starts.tolist(), sequences.stops.tolist(), sequences.users.tolist(), strict=True)
    )


def test_new_users_have_all_their_events_and_active_ones_their_first():
    events = log()
    found = of_new_users(events, events.lengths > 5, prefix=4, longest=50)
    assert spans(found) == [(0, 3, -1), (3, 7, -1), (11, 12, -1), (12, 16, -1)]


def test_without_prefix_active_users_are_left_out():
    events = log()
    assert spans(of_new_users(events, events.lengths > 5, 0, 50)) == [(0, 3, -1), (11, 12, -1)]


def test_last_events_of_active_users():
    events = log()
    assert spans(last_events(events, events.lengths > 5, 10)) == [(3, 11, 2), (14, 24, 4)]


def test_events_after_the_first_are_in_one_sequence_each_and_the_newest_ones_are_full():
    events = log()
    found = after_first(events, events.lengths > 5, first=3, longest=4)
    assert spans(found) == [(6, 7, 2), (7, 11, 2), (15, 16, 4), (16, 20, 4), (20, 24, 4)]


def test_users_with_few_events_have_their_last_one():
    events = log()
    found = after_first(events, events.lengths > 0, first=100, longest=4)
    assert spans(found) == [(2, 3, 0), (10, 11, 2), (11, 12, 3), (23, 24, 4)]


def test_cuts_of_long_sequences_differ_by_seed():
    events = log()
    every = [spans(whole(events, np.ones(5, bool), 5, True, seed)) for seed in range(4)]
    assert every[0] == spans(whole(events, np.ones(5, bool), 5, True, 0))
    assert any(one != every[0] for one in every)


def test_long_sequences_are_cut_and_every_event_is_in_one_of_them():
    events = log()
    found = whole(events, np.ones(5, bool), 5, known=True)
    assert found.lengths.max() <= 5
    covered = np.concatenate([np.arange(a, b) for a, b, _ in spans(found)])
    assert sorted(covered.tolist()) == list(range(len(events)))
    assert all((events.users[a:b] == user).all() for a, b, user in spans(found))


def test_sequences_are_filled_up_at_the_end():
    values = np.array([5, 6, 7, 8], np.int32)
    found = padded(values, np.array([0, 3]), np.array([3, 4]), -1)
    assert torch.equal(found, torch.tensor([[5, 6, 7], [8, -1, -1]], dtype=found.dtype))


def test_item_before_a_sequence_is_of_the_same_user():
    events = log()
    assert items_before(events, np.array([0, 2, 3, 12, 14])).tolist() == [-1, 1, -1, -1, 3]
