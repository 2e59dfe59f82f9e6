import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineTest
from shortlist.evaluate.online.segments import segments
from tests.evaluate.online.worlds import THRESHOLD, small_split

COUNTS = [0, 1, 10, 11, 20, 21, 50, 51, 100, 101, 200, 201, 400, 401, 9999]


def test_users_are_in_the_bin_of_their_training_events():
    log = Interactions.of(np.arange(15), np.zeros(15, int))
    test = OnlineTest(log, np.arange(15), np.array(COUNTS))
    found = segments(test, 100)
    bins = {name: [COUNTS[row] for row in np.flatnonzero(mask)] for name, mask in found.items()}
    assert bins == {
        "all": COUNTS,
        "new": [0],
        "inactive": COUNTS[1:9],
        "active": COUNTS[9:],
        "T 0": [0],
        "T 1-10": [1, 10],
        "T 11-20": [11, 20],
        "T 21-50": [21, 50],
        "T 51-100": [51, 100],
        "T 101-200": [101, 200],
        "T 201-400": [201, 400],
        "T > 400": [401, 9999],
        "event 1": [0],
        **{f"event {name}": [] for name in ("2", "3", "4-5", "6-10", "11-20", "21-50", "51-100", "> 100")},
    }


def test_a_user_at_the_threshold_is_inactive():
    """Test 24 of the specification of two time scales, for evaluation."""
    log = Interactions.of(np.arange(3), np.zeros(3, int))
    found = segments(OnlineTest(log, np.arange(3), np.array([4, 5, 6])), 5)
    assert found["inactive"].tolist() == [True, True, False]
    assert found["active"].tolist() == [False, False, True]


@pytest.mark.parametrize("threshold", [None, 0, THRESHOLD, 10**6])
def test_segments_divide_all_events(threshold):
    found = segments(OnlineTest.of(small_split()), threshold)
    groups = ("new", "known") if threshold is None else ("new", "inactive", "active")
    assert (sum(found[name].astype(int) for name in groups) == 1).all()
    assert (sum(mask.astype(int) for name, mask in found.items() if name.startswith("T ")) == 1).all()
    numbers = sum(mask.astype(int) for name, mask in found.items() if name.startswith("event"))
    assert (numbers == found["new"]).all()


def test_events_of_new_users_are_counted_from_their_first_one():
    split = small_split()
    test = OnlineTest.of(split)
    found = segments(test, None)
    for user in np.flatnonzero(split.train_counts == 0):
        own = np.flatnonzero(split.events.users == user)
        rows = np.flatnonzero(found["event 4-5"] & (test.users == user))
        expected = [at for at in own[3:5] if split.part[at] == 2]
        assert test.positions[rows].tolist() == expected


def test_a_negative_threshold_is_refused():
    with pytest.raises(ConfigError, match="a threshold of 0 or more, or none, got -1"):
        segments(OnlineTest.of(small_split()), -1)
