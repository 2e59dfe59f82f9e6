import numpy as np
import pytest

from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.online import OnlineTest
from tests.evaluate.online.worlds import small_split, small_test


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("part", ["valid", "test"])
def test_history_is_every_earlier_event_of_the_user_and_in_block_mode_every_event_of_an_earlier_time(
    block, part
):
    test = small_test(block, part)
    events = test.events
    for row, at in enumerate(test.positions):
        own = np.flatnonzero(events.users == events.users[at])
        before = own[events.times[own] < events.times[at]] if block else own[own < at]
        history = test.histories(np.array([row]), 40)[0]
        assert history[history >= 0].tolist() == events.items[before].tolist()
        assert (history[: 40 - len(before)] == -1).all()
        assert test.histories(np.array([row]), 2)[0].tolist() == history[-2:].tolist()


def test_facts_of_events():
    split = small_split()
    test = OnlineTest.of(split)
    assert len(test) == (split.part == 2).sum()
    assert (test.targets == split.events.items[split.part == 2]).all()
    assert (test.users == split.events.users[split.part == 2]).all()
    new = split.train_counts[test.users] == 0
    assert new.any()
    assert not new.all()
    assert (test.known_users == np.where(new, -1, test.users)).all()
    for row, at in enumerate(test.positions):
        assert test.event_numbers[row] == (split.events.users[: at + 1] == test.users[row]).sum()


def test_some_events_keep_their_histories():
    test = small_test(block=True)
    rows = np.array([7, 3, 20])
    part = test.at(rows)
    assert part.positions.tolist() == test.positions[[3, 7, 20]].tolist()
    assert (part.histories(np.arange(3), 9) == test.histories(np.sort(rows), 9)).all()
    assert part.block
    assert part.seed == test.seed


def test_a_smaller_sample_of_users_is_part_of_a_larger_one():
    test = small_test()
    small, large = test.of_users(4, seed=2), test.of_users(9, seed=2)
    assert (len(np.unique(small.users)), len(np.unique(large.users))) == (4, 9)
    assert np.isin(small.positions, large.positions).all()
    assert len(small) == np.isin(test.users, small.users).sum()
    assert test.of_users(1000) is test
    with pytest.raises(ConfigError, match="1 or more users, got 0"):
        test.of_users(0)


def test_positions_and_counts_that_do_not_fit_are_refused():
    split = small_split()
    for positions in ([5, 5], [7, 3], [-1, 3], [3, 300]):
        with pytest.raises(ConfigError, match="expected ascending positions from 0 to 299; sort them"):
            OnlineTest(split.events, np.array(positions), split.train_counts)
    with pytest.raises(DataError, match="expected events to evaluate, got none"):
        OnlineTest(split.events, np.empty(0, int), split.train_counts)
    with pytest.raises(ConfigError, match="training counts of 20 users, got 3"):
        OnlineTest(split.events, np.array([4]), split.train_counts[:3])
