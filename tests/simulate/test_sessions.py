"""When users come: counts worked out by hand, moments against a slow loop."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.simulate import World, make_world
from shortlist.simulate.sessions import GAP, SESSION, event_counts, plan
from shortlist.simulate.world import DAY


def active(*shares: float) -> World:
    return replace(make_world(len(shares), 2, 1), activity=np.array(shares, np.float32))


@pytest.mark.parametrize(
    ("n_events", "counts"), [(4, [2, 1, 1]), (8, [4, 2, 2]), (1, [0, 1, 0]), (3, [2, 0, 1]), (0, [0, 0, 0])]
)
def test_events_divide_by_activity_and_none_is_lost_to_rounding(n_events: int, counts: list[int]) -> None:
    assert event_counts(active(0.5, 0.25, 0.25), n_events).tolist() == counts


def test_shares_that_do_not_sum_to_one_divide_all_the_same() -> None:
    assert event_counts(active(6, 2), 8).tolist() == [6, 2]


def test_a_single_event_falls_where_chance_puts_it_within_the_stay() -> None:
    world = replace(
        make_world(3, 2, 1, days=10.0),
        arrivals=np.array([0, 0.5, 0.25], np.float32),
        stays=np.array([1, 0.25, 0], np.float32),
    )
    visits = plan(world, np.array([2, 0, 1]), np.array([1, 1, 1]), np.random.default_rng(7))
    drawn = np.random.default_rng(7).random((3, 1))[:, 0]
    ages = np.array([0.25, drawn[1], 0.5 + 0.25 * drawn[2]])
    assert visits.times[:, 0].tolist() == (world.start + (ages * 10 * DAY).astype(np.int64)).tolist()
    assert visits.users.tolist() == [2, 0, 1]
    assert visits.opens.tolist() == [[True]] * 3


def test_the_times_are_those_of_a_slow_loop() -> None:
    world = make_world(4, 2, 1, seed=5)
    users, counts = np.array([3, 1, 0]), np.array([40, 25, 9])
    visits = plan(world, users, counts, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    moments, opens = rng.random((3, 40)), rng.random((3, 40)) < 1 / SESSION
    for row, user in enumerate(users):
        ordered, times, begun, first = [*sorted(moments[row, : counts[row]])], [], 0.0, 0
        for place, moment in enumerate(ordered + [1.0] * (40 - len(ordered))):
            if place == 0 or opens[row, place]:
                begun, first = moment, place
            age = float(world.arrivals[user]) + float(world.stays[user]) * begun
            times.append(min(world.start + int(age * world.days * DAY) + GAP * (place - first), world.end))
        np.testing.assert_allclose(visits.times[row], sorted(times), rtol=0, atol=1)


def test_no_time_lies_past_the_end_of_a_world_shorter_than_a_session() -> None:
    world = make_world(2, 2, 1, days=0.0001)  # less than nine seconds
    visits = plan(world, np.array([0, 1]), np.array([30, 30]), np.random.default_rng(0))
    assert world.start <= visits.times.min()
    assert visits.times.max() == world.end
