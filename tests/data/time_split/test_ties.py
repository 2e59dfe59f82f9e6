import numpy as np
from hypothesis import given, settings

from shortlist.data import Interactions
from shortlist.data.time_split.ties import hash64, tie_starts, with_tie_order
from tests.data.logs import event_tuples, logs


def splitmix(state):
    """SplitMix64 with whole numbers of Python."""
    bits = (state + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return bits ^ (bits >> 31)


def test_hash_is_three_outputs_of_splitmix():
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the published first output of seed 0
    users, items = np.array([0, 3, 2**31 - 1], np.int32), np.array([5, 0, 7], np.int32)
    for seed in (0, 9, 2**64 + 9):
        expected = [
            splitmix(splitmix(splitmix(seed % 2**64) ^ int(user)) ^ int(item))
            for user, item in zip(users, items, strict=True)
        ]
        assert hash64(users, items, seed).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(logs())
def test_ties_are_in_the_order_of_the_hash_whatever_the_order_of_the_log(events):
    ordered = with_tie_order(events, "hash", seed=3)
    assert sorted(event_tuples(ordered)) == sorted(event_tuples(events))
    keys = hash64(ordered.users, ordered.items, 3)
    rows = list(zip(ordered.users.tolist(), ordered.times.tolist(), keys.tolist(), strict=True))
    assert rows == sorted(rows)
    back = np.arange(len(events))[::-1]
    turned = Interactions.of(
        events.users[back], events.items[back], events.times[back], n_users=8, n_items=12
    )
    assert event_tuples(with_tie_order(turned, "hash", seed=3)) == event_tuples(ordered)


def test_weights_and_columns_follow_their_events():
    events = Interactions.of(
        np.zeros(40, int),
        np.arange(40),
        np.zeros(40, int),
        np.arange(1, 41),
        columns={"rating": np.arange(40)},
    )
    ordered = with_tie_order(events, "hash")
    assert ordered.items.tolist() != list(range(40))
    assert ordered.columns["rating"].tolist() == ordered.items.tolist()
    assert (ordered.weights - 1).tolist() == ordered.items.tolist()


def test_another_seed_gives_another_order_and_file_keeps_that_of_the_log():
    events = Interactions.of(np.zeros(40, int), np.arange(40), np.zeros(40, int))
    orders = {tuple(with_tie_order(events, "hash", seed).items.tolist()) for seed in range(5)}
    assert len(orders) == 5
    assert with_tie_order(events, "file") is events


@settings(max_examples=60, deadline=None)
@given(logs())
def test_tie_starts_are_the_first_events_of_a_user_at_a_time(events):
    keys = list(zip(events.users.tolist(), events.times.tolist(), strict=True))
    assert tie_starts(events).tolist() == [keys.index(key) for key in keys]
