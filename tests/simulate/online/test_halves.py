from dataclasses import replace

import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.online import OnlineSettings, make_online_world, split_half

SECOND = OnlineSettings(regulariser=0.1, spread=1.0, alpha=1.5, users=3000)  # section 3.3, second row


def test_split_halves_find_the_variance_and_the_crossover():
    """Test 30b of the specification: V within 5 %, the threshold from 36 to 46, with halves of 50 events."""
    world = make_online_world(SECOND, 0)
    found = split_half(world, 50, 0)
    assert found.v == pytest.approx(world.variance, rel=0.05)
    assert 36 <= found.threshold <= 46
    assert found.q == pytest.approx(10.80, rel=0.05)


@pytest.mark.parametrize(("t", "q"), [(10, 13.52), (20, 11.74), (100, 10.31)])
def test_split_half_q_falls_with_the_length_of_a_half_as_in_the_specification(t, q):
    """Section 4.1; the error of V falls with t, so the threshold varies most with halves of 10."""
    found = split_half(make_online_world(SECOND, 0), t, 0)
    assert found.q == pytest.approx(q, rel=0.05)
    assert 34 <= found.threshold <= 53


def test_halves_are_disjoint_and_drawn_from_the_seed():
    world = make_online_world(replace(SECOND, users=50), 0)
    assert split_half(world, 5, 1) == split_half(world, 5, 1)
    assert split_half(world, 5, 1) != split_half(world, 5, 2)
    assert split_half(world, 5, 1).q > 0  # two equal halves would have Q = 0


def test_halves_without_events_are_refused():
    with pytest.raises(ConfigError, match="at least 1 event"):
        split_half(make_online_world(replace(SECOND, users=5), 0), 0, 0)
