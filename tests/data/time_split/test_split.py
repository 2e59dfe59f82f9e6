from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions
from shortlist.data.dataset import build_dataset
from shortlist.data.sources.movielens import read_movielens
from shortlist.data.time_split import PARTS, time_split
from shortlist.errors import ConfigError, DataError
from tests.data.logs import event_tuples, logs


def in_time(events, seed=0):
    """A log in which all times differ."""
    rng = np.random.default_rng(seed)
    return Interactions.of(rng.integers(0, 8, events), rng.integers(0, 9, events), rng.permutation(events))


def parts_of(log, **options):
    """The split of a log, if it has one."""
    try:
        return time_split(log, **options)
    except DataError:
        assume(False)


@settings(max_examples=100, deadline=None)
@given(logs(least=20, last_time=30), st.booleans(), st.sampled_from(["hash", "file"]))
def test_parts_follow_each_other_in_time_and_share_no_event(log, respect_ties, ties):
    split = parts_of(log, respect_ties=respect_ties, ties=ties)
    assert sorted(event_tuples(split.events)) == sorted(event_tuples(log))
    places = [split.positions(part) for part in PARTS]
    assert np.sort(np.concatenate(places)).tolist() == list(range(len(log)))
    for before, after in pairwise(places):
        last, first = split.events.times[before].max(), split.events.times[after].min()
        assert last < first if respect_ties else last <= first


@settings(max_examples=100, deadline=None)
@given(logs(least=20, last_time=30))
def test_a_cut_moves_forward_to_the_next_time_and_no_further(log):
    split = parts_of(log)
    ordered, sizes = np.sort(log.times), np.bincount(split.part)
    for count, share in zip(sizes.cumsum()[:2], (7, 8), strict=True):
        least = share * len(log) // 10
        assert count >= least
        assert (ordered[least:count] == ordered[least - 1]).all()


@pytest.mark.parametrize("count", [10, 30, 90, 100, 110, 1000, 1009])
@pytest.mark.parametrize("respect_ties", [True, False])
def test_cuts_are_the_whole_parts_of_their_shares_where_times_differ(count, respect_ties):
    split = time_split(in_time(count), respect_ties=respect_ties)
    cuts = count * 7 // 10, count * 8 // 10
    assert np.bincount(split.part).tolist() == [cuts[0], cuts[1] - cuts[0], count - cuts[1]]


@settings(max_examples=60, deadline=None)
@given(logs(least=30, last_time=30))
def test_counts_of_training_events_leave_out_those_of_validation(log):
    split = parts_of(log)
    expected = [sum(user == one[0] for one in event_tuples(split.train)) for user in range(8)]
    assert split.train_counts.tolist() == expected
    assert split.train_counts.sum() == (split.part == 0).sum()


@settings(max_examples=60, deadline=None)
@given(logs(least=30, last_time=30))
def test_requests_have_all_earlier_events_as_history_and_the_part_as_relevant_items(log):
    split = parts_of(log)
    for row, requests in ((1, split.valid_requests()), (2, split.test_requests())):
        users = np.unique(split.events.users[split.part == row])
        assert requests.users.tolist() == users.tolist()
        for number, user in enumerate(users):
            own = np.flatnonzero(split.events.users == user)
            inside = np.arange(requests.cuts[number], requests.stops[number])
            assert inside.tolist() == own[split.part[own] == row].tolist()
            history = np.arange(requests.starts[number], requests.cuts[number])
            assert history.tolist() == own[split.part[own] < row].tolist()


def test_as_a_split_it_has_the_same_events_and_its_settings():
    split = time_split(in_time(200), seed=4)
    plain = split.as_split()
    assert event_tuples(plain.train) == event_tuples(split.train)
    assert plain.settings == {
        "protocol": "time-split",
        "train": 0.7,
        "valid": 0.1,
        "respect_ties": True,
        "ties": "hash",
        "seed": 4,
    }
    assert not plain.left_out.events


@pytest.mark.parametrize(
    "shares", [(0.7, 0.3), (0.7, 0.1, 0.1), (1.0, 0.0, 0.0), (0.9, -0.1, 0.2), (np.nan, 0.5, 0.5)]
)
def test_shares_that_are_no_split_are_refused(shares):
    with pytest.raises(ConfigError, match="expected three positive shares that add up to 1"):
        time_split(in_time(30), shares)


def test_a_log_of_one_time_is_refused_and_cut_inside_the_tie_on_request():
    log = Interactions.of(np.arange(10), np.arange(10), np.zeros(10, int))
    with pytest.raises(DataError, match=r"expected events in every part, got \[10, 0, 0\] of 10 events"):
        time_split(log)
    assert np.bincount(time_split(log, respect_ties=False).part).tolist() == [7, 1, 2]
    with pytest.raises(ConfigError, match="expected a part of train, valid, test"):
        time_split(in_time(30)).positions("all")


@pytest.mark.data
def test_counts_of_movielens(real):
    """Test 30 of the specification of two time scales: cuts inside ties, in the order of the file."""
    events = build_dataset(read_movielens(real("ml-1m/ml-1m.zip"))).events
    same = events.users[1:] == events.users[:-1]
    assert (events.times[1:] == events.times[:-1])[same].mean() == pytest.approx(0.532, abs=5e-4)
    split = time_split(events, respect_ties=False, ties="file")
    assert len(events) == 1_000_209
    assert np.bincount(split.part).cumsum().tolist() == [700_146, 800_167, 1_000_209]
    counts = split.train_counts
    known = counts[counts > 0]
    assert (len(known), len(np.unique(split.train.items)), np.median(known)) == (4870, 3633, 84)
    assert known.mean() == pytest.approx(143.767, abs=5e-4)
    test = events.where(split.positions("test"))
    users = np.unique(test.users)
    assert (len(test), len(users), (counts[users] == 0).sum()) == (200_042, 1783, 810)
    of_event = counts[test.users]
    unseen = split.train.popularity[test.items] == 0
    shares = [(of_event == 0).mean(), (of_event > 100).mean(), (of_event > 200).mean(), unseen.mean()]
    assert 100 * np.array(shares) == pytest.approx([57.556, 24.800, 17.016, 0.0685], abs=5e-4)
    # Both cuts are inside ties.
    for ties in ("hash", "file"):
        moved = time_split(events, ties=ties)
        assert np.bincount(moved.part).cumsum().tolist() == [700_148, 800_168, 1_000_209]
