"""Requests of a log against the events of the data set: histories, and what may be seen in training."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.data import Interactions, Split
from shortlist.errors import DataError
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives.from_log import LeftOut
from shortlist.train.objectives.stage_log import StageLog
from shortlist.train.refit import all_events


def log_at(users, times) -> TrainingLog:
    """Requests with one served positive each."""
    count = len(users)
    log = StageLog(
        np.array(users),
        np.arange(count + 1),
        np.zeros(count, int),
        np.full(count, 2),
        np.ones(count, int),
        9,
        2,
    )
    return TrainingLog(log, np.array(times, np.int64), ("pool", "rank"), LeftOut(count, count, 2))


def events() -> Interactions:
    """User 0 at times 10, 20, 30; user 1 at 15 and 25."""
    return Interactions.of(
        np.array([0, 0, 0, 1, 1]),
        np.array([0, 1, 2, 3, 4]),
        np.array([10, 20, 30, 15, 25]),
        n_users=3,
        n_items=9,
    )


def test_history_ends_before_the_request():
    ends = log_at([0, 0, 0, 1, 2], [10, 20, 99, 26, 50]).history_ends(events())
    assert ends.tolist() == [0, 1, 3, 5, 5]


def test_requests_since_the_first_held_out_event_of_their_user_are_left_out(world):
    data, log = events(), log_at([0, 0, 1, 2], [19, 20, 99, 99])
    train = np.array([True, False, False, True, True])
    nobody = all_events(replace(world, events=data), {}).test
    split = Split(data, train, nobody, nobody, {})
    assert log.before_held_out(split).time.tolist() == [19, 99, 99]
    assert log.before_held_out(split).log.user_id.tolist() == [0, 1, 2]
    whole = all_events(replace(world, events=data), {})
    assert log.before_held_out(whole) is log
    assert len(log_at([0], [25]).before_held_out(split)) == 0


def test_earlier_events_are_those_before_the_first_request():
    assert log_at([0, 1], [22, 17]).earlier_events(events()).times.tolist() == [10, 15]
    with pytest.raises(DataError, match="no event before the first request of the log at 10"):
        log_at([0], [10]).earlier_events(events())


def test_fingerprint_changes_with_labels_and_times():
    one, other = log_at([0, 1], [5, 6]), log_at([0, 1], [5, 7])
    unlike = replace(one, log=replace(one.log, y=np.array([1, 0])))
    assert one.fingerprint == log_at([0, 1], [5, 6]).fingerprint
    assert len({one.fingerprint, other.fingerprint, unlike.fingerprint}) == 3
