"""Sessions: event counts by hand, times against a slow loop."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.simulate import World, make_world
from shortlist.simulate.sessions import GAP, SESSION, event_counts, sample_sessions
from shortlist.simulate.world import DAY


def active(*shares: float) -> World:
    return replace(make_world(len(shares), 2, 1), activity=np.array(shares, np.float32))


@pytest.mark.parametrize(
    ("n_events", "counts"), [(4, [2, 1, 1]), (8, [4, 2, 2]), (1, [0, 1, 0]), (3, [2, 0, 1]), (0, [0, 0, 0])]
)
def test_event_counts_follow_activity_and_sum_exactly(n_events: int, counts: list[int]) -> None:
    assert event_counts(active(0.5, 0.25, 0.25), n_events).tolist() == counts


def test_activity_need_not_sum_to_one() -> None:
    assert event_counts(active(6, 2), 8).tolist() == [6, 2]


def test_a_single_event_has_a_random_time_between_arrival_and_departure() -> None:
    world = replace(
        make_world(3, 2, 1, days=10.0),
        arrivals=np.array([0, 0.5, 0.25], np.float32),
        lifetimes=np.array([1, 0.25, 0], np.float32),
    )
    sessions = sample_sessions(world, np.array([2, 0, 1]), np.array([1, 1, 1]), np.random.default_rng(7))
    uniform = np.random.default_rng(7).random((3, 1))[:, 0]
    ages = np.array([0.25, uniform[1], 0.5 + 0.25 * uniform[2]])
    assert sessions.times[:, 0].tolist() == (world.start + (ages * 10 * DAY).astype(np.int64)).tolist()
    assert sessions.users.tolist() == [2, 0, 1]
    assert sessions.starts.tolist() == [[True]] * 3


def test_times_equal_a_slow_loop() -> None:
    world = make_world(4, 2, 1, seed=5)
    users, counts = np.array([3, 1, 0]), np.array([40, 25, 9])
    sessions = sample_sessions(world, users, counts, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    moments, opens = rng.random((3, 40)), rng.random((3, 40)) < 1 / SESSION
    for row, user in enumerate(users):
        ordered, times, begun, first = [*sorted(moments[row, : counts[row]])], [], 0.0, 0
        for place, moment in enumerate(ordered + [1.0] * (40 - len(ordered))):
            if place == 0 or opens[row, place]:
                begun, first = moment, place
            age = float(world.arrivals[user]) + float(world.lifetimes[user]) * begun
            times.append(min(world.start + int(age * world.days * DAY) + GAP * (place - first), world.end))
        np.testing.assert_allclose(sessions.times[row], sorted(times), rtol=0, atol=1)


def test_no_time_is_after_the_end_of_a_log_shorter_than_a_session() -> None:
    world = make_world(2, 2, 1, days=0.0001)  # less than nine seconds
    sessions = sample_sessions(world, np.array([0, 1]), np.array([30, 30]), np.random.default_rng(0))
    assert world.start <= sessions.times.min()
    assert sessions.times.max() == world.end
