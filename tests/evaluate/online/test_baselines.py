import sys

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineTest, RecentPopularity, TrainPopularity, ranks
from shortlist.evaluate.online.predict import predict
from tests.evaluate.online.worlds import small_split, small_test


def all_scores(model, test):
    found = np.full((len(test), test.n_items), np.nan)
    for block in predict(model, test):
        found[block.rows] = block.scores
    return found


@pytest.mark.parametrize("window", [1, 5, 30, 1000])
@pytest.mark.parametrize("cells", [60, 1 << 21])
def test_recent_popularity_counts_events_before_the_event_in_its_window(window, cells, monkeypatch):
    monkeypatch.setattr(sys.modules[predict.__module__], "CELLS", cells)
    test = small_test()
    found = all_scores(RecentPopularity(test.events, window), test)
    for row, at in enumerate(test.positions):
        time = test.events.times[at]
        inside = (test.events.times >= time - window) & (test.events.times < time)
        assert found[row].tolist() == np.bincount(test.events.items[inside], minlength=30).tolist()


def test_training_popularity_is_the_same_before_every_event():
    split = small_split()
    test = OnlineTest.of(split)
    found = all_scores(TrainPopularity(split.train), test)
    assert (found == np.bincount(split.train.items, minlength=30)).all()


def test_events_of_a_tie_count_half():
    split = small_split()
    test = OnlineTest.of(split)
    counts = np.bincount(split.train.items, minlength=30)
    own = counts[test.targets][:, None]
    expected = 0.5 + (counts > own).sum(1) + (counts == own).sum(1) / 2
    assert (ranks(TrainPopularity(split.train), test).raw == expected).all()


def test_an_empty_window_is_refused():
    with pytest.raises(ConfigError, match="a window of 1 ms or more, got 0"):
        RecentPopularity(small_test().events, 0)
