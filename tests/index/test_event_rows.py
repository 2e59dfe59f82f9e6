"""The compiled table and lists against dictionaries and sorted lists."""

import numpy as np
import pytest

from shortlist.index.event_rows import FREE, add_rows, is_new, push, table_size, walk


def columns(pairs):
    return np.array([one[0] for one in pairs], np.int32), np.array([one[1] for one in pairs], np.uint64)


@pytest.mark.parametrize("seed", range(3))
def test_is_new_is_membership_in_a_set(seed):
    rng = np.random.default_rng(seed)
    pool = [(int(owner), int(key)) for owner in range(12) for key in (*range(12), 2**64 - 1)]
    known = [pool[at] for at in rng.permutation(len(pool))[:80]]
    owners, ids = columns(known)
    slots = np.full(table_size(len(known)), FREE, np.int32)
    add_rows(slots, owners, ids, 0, 50)
    add_rows(slots, owners, ids, 50, len(known))
    batch = [pool[at] for at in rng.integers(0, len(pool), 60)]
    seen, expected = set(known), []
    for one in batch:
        expected.append(one not in seen)
        seen.add(one)
    assert is_new(slots, owners, ids, *columns(batch)).tolist() == expected


def test_erased_rows_are_not_found():
    owners, ids = columns([(1, 5), (2, 5)])
    slots = np.full(table_size(2), FREE, np.int32)
    add_rows(slots, owners, ids, 0, 2)
    owners[0] = -1
    assert is_new(slots, owners, ids, *columns([(1, 5), (2, 5)])).tolist() == [True, False]


def test_table_leaves_half_of_its_slots_free():
    for count in (0, 1, 4, 5, 8, 1000, 1 << 16):
        size = table_size(count)
        assert size & (size - 1) == 0
        assert size >= 2 * count


def lists(events, owners=3):
    """Columns and lists of events (owner, time, id), all pushed at once."""
    own, times, ids = (np.array([one[part] for one in events]) for part in range(3))
    previous, heads = np.full(len(events), -1, np.int32), np.full(owners, -1, np.int32)
    last_times, last_ids = np.full(owners, -1), np.zeros(owners, np.uint64)
    own, ids = own.astype(np.int32), ids.astype(np.uint64)
    older = push(previous, heads, last_times, last_ids, own, times, ids, 0)
    return older, previous, times, ids, heads, last_times, last_ids


def test_push_says_which_events_are_not_newer_than_the_newest():
    older, _, _, _, heads, last_times, last_ids = lists(
        [(0, 5, 9), (1, 5, 9), (0, 5, 10), (0, 5, 1), (0, 4, 99), (-1, 0, 0), (1, 6, 0)]
    )
    assert older.tolist() == [False, False, False, True, True, False, False]
    assert heads.tolist() == [4, 6, -1]
    assert last_times.tolist() == [5, 6, -1]
    assert last_ids.tolist() == [10, 0, 0]


def test_walk_returns_the_newest_rows_first_down_to_a_key():
    events = [(0, time, 7) for time in range(10)]
    _, previous, times, ids, heads, _, _ = lists(events)

    def rows(floor=(-1, 0), since_row=1000, most=1000):
        return walk(previous, times, ids, int(heads[0]), floor, since_row, most).tolist()

    assert rows() == list(range(9, -1, -1))
    assert rows(most=3) == [9, 8, 7]
    assert rows(floor=(6, 6)) == [9, 8, 7, 6]
    assert rows(floor=(6, 7)) == [9, 8, 7]
    assert rows(floor=(100, 0), since_row=4) == [9, 8, 7, 6, 5, 4]
    assert walk(previous, times, ids, -1, (-1, 0), 0, 10).tolist() == []
