"""Two records of each user, the older one always older than the reorder window."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.state.table.checkpoints import Checkpoints
from shortlist.state.table.records import PRESENT, record_type

KIND = record_type(2, "fp32")


def record(time, number=0):
    made = np.zeros(1, KIND)
    made["last_ts"], made["last_event_id"], made["flags"], made["vector"] = time, number, PRESENT, time
    return made


def add(kept, user, time):
    kept.add(np.array([user], np.int32), record(time))


def time_before(kept, user, key):
    found = kept.before(user, key)
    return None if found is None else int(found["last_ts"][0])


def test_newest_record_before_a_key_is_found_and_later_ones_are_dropped():
    kept = Checkpoints(KIND, 10)
    for time in (5, 10, 20):
        add(kept, 3, time)
    assert time_before(kept, 3, (30, 0)) == 20
    assert time_before(kept, 3, (20, 0)) == 10  # not before itself
    assert time_before(kept, 3, (30, 0)) == 10
    assert time_before(kept, 3, (10, 0)) is None  # the one of 5 is no longer kept
    assert time_before(kept, 99, (10, 0)) is None


def test_newest_times():
    kept = Checkpoints(KIND, 10)
    add(kept, 3, 7)
    assert kept.newest_times(np.array([2, 3, 50], np.int32)).tolist() == [-1, 7, -1]
    kept.drop(3)
    kept.drop(4)
    assert kept.newest_times(np.array([3], np.int32)).tolist() == [-1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), max_size=20), st.integers(0, 5))
def test_a_record_that_is_found_is_one_of_the_user(batches, most):
    """Whoever loses a place to whom."""
    kept, added = Checkpoints(KIND, most), {}
    for at, users in enumerate(batches):
        records = np.concatenate([np.zeros(0, KIND), *(record(100 * at + user) for user in users)])
        kept.add(np.array(users, np.int32), records)
        added |= {user: [*added.get(user, []), 100 * at + user] for user in users}
    times = kept.newest_times(np.arange(10, dtype=np.int32)).tolist()
    assert sum(time >= 0 for time in times) <= most
    for user in range(10):
        found = time_before(kept, user, (10**6, 0))
        assert found == (None if times[user] < 0 else times[user])
        if found is not None:
            assert found == added[user][-1]


def test_memory_follows_the_users_up_to_the_limit():
    kept = Checkpoints(KIND, 100)
    add(kept, 0, 1)
    few = kept.nbytes
    for user in range(1000):
        add(kept, user, 1)
    assert few < kept.nbytes <= 2 * KIND.itemsize * 100 * 1.3 + 2 * 4 * 1300
