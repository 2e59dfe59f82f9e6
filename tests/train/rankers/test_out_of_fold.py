import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.errors import DataError
from shortlist.train.rankers.out_of_fold import apart, rehearse, rounds_of

PROTOCOLS = [{"protocol": name} for name in ("half-history", "leave-last-out", "global-time")]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p["protocol"])
def test_nominators_see_nothing_of_what_is_asked(world, protocol):
    rehearsal = rehearse(world.events, protocol, seed=0)
    events, cases = world.events, rehearsal.cases
    seen = dict.fromkeys(zip(rehearsal.past.users.tolist(), rehearsal.past.times.tolist(), strict=True), True)
    last = np.full(events.n_users, -1)
    np.maximum.at(last, rehearsal.past.users, rehearsal.past.times)
    for user, cut, stop in zip(cases.users, cases.cuts, cases.stops, strict=True):
        assert last[user] <= events.times[cut]
        later = events.times[cut:stop]
        assert all((user, t) not in seen or t == later[0] for t in later.tolist())
    counted = np.bincount(rehearsal.past.users, minlength=events.n_users)
    assert (counted[cases.users] == cases.cuts - events.starts[cases.users]).all()


def test_in_global_time_the_whole_past_lies_before_everything_asked(world):
    rehearsal = rehearse(world.events, {"protocol": "global-time"}, seed=0)
    asked = world.events.times[rehearsal.cases.cuts].min()
    assert rehearsal.past.times.max() < asked


def test_no_more_requests_than_wanted_and_the_seed_chooses(world):
    one, two = (rehearse(world.events, {}, seed, most=10).cases.users.tolist() for seed in (0, 1))
    assert len(one) == 10
    assert one != two


def test_a_log_without_a_later_part_is_refused():
    with pytest.raises(DataError, match="before and after a cut"):
        rehearse(Interactions.of(np.arange(3), np.zeros(3)), {}, 0)


def test_rounds_hold_all_cases(world):
    cases = rehearse(world.events, {}, 0).cases
    for learners in (1, 2, 500):
        rounds = rounds_of(cases, learners)
        assert sum(len(one.query) for one in rounds) == len(cases)
        assert len(rounds) >= min(10 * learners, len(cases))


def test_parts_of_users_are_asked_of_nominators_that_never_met_them(world):
    rehearsal = rehearse(world.events, {}, 0)
    asked = []
    for learned, cases in apart(rehearsal, 3, 0):
        assert not set(learned.users) & set(cases.users)
        asked += cases.users.tolist()
    assert sorted(asked) == sorted(rehearsal.cases.users.tolist())


def test_in_global_time_the_others_show_nothing_of_the_future_either(world):
    rehearsal = rehearse(world.events, {"protocol": "global-time"}, 0)
    for learned, cases in apart(rehearsal, 3, 0):
        assert learned.times.max() < world.events.times[cases.cuts].min()
        assert not set(learned.users) & set(cases.users)


def test_more_parts_than_users_are_refused(world):
    rehearsal = rehearse(world.events, {}, 0, most=2)
    with pytest.raises(DataError, match="use fewer folds"):
        list(apart(rehearsal, 50, 0))
