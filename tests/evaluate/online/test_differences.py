import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineRanks, OnlineTest, paired_differences, ranks, summary
from shortlist.metrics.estimate import Estimate
from tests.evaluate.online.worlds import THRESHOLD, FixedScores, small_split


def of(differences, segment="all", kind="raw", metric="mrr"):
    found = [one for one in differences if (one.segment, one.kind, one.metric) == (segment, kind, metric)]
    assert len(found) == 1
    return found[0].means


def test_differences_are_those_of_the_summaries():
    test = OnlineTest.of(small_split())
    a, b = (ranks(FixedScores(seed), test, n_neg=9) for seed in (0, 1))
    differences = paired_differences(a, b, test, THRESHOLD, samples=10)
    first, second = (summary(one, test, THRESHOLD, samples=10) for one in (a, b))
    assert len(differences) == len(first.metrics)
    for one in differences:
        for weight in ("by_event", "by_user"):
            means = [
                getattr(table.of(one.segment, one.kind, one.metric), weight).mean for table in (first, second)
            ]
            assert getattr(one.means, weight).mean == pytest.approx(means[0] - means[1], abs=1e-12)


def many_users(users=80, events=12):
    """A test of users with events of their own, and ranks that depend mostly on the user and the event."""
    count, rng = users * events, np.random.default_rng(0)
    log = Interactions.of(np.arange(count) // events, np.zeros(count, int), n_items=1000)
    test = OnlineTest(log, np.arange(count), np.full(users, 5))
    common = rng.integers(1, 90, users)[log.users] + rng.integers(0, 10, count)

    def system(worse):
        rank = (common + worse + rng.integers(0, 2, count)).astype(float)
        return OnlineRanks(rank, rank, rank, 1000, 499)

    return test, system


def test_pairing_makes_intervals_narrow():
    test, system = many_users()
    a, b = system(0), system(3)
    difference = of(paired_differences(a, b, test)).by_event
    assert difference.above
    own = [summary(one, test).of().by_event for one in (a, b)]
    assert own[0].low < own[1].high  # the separate intervals overlap
    assert difference.high - difference.low < 0.5 * (own[0].high - own[0].low)
    assert of(paired_differences(b, a, test)).by_event.below


def test_a_system_against_itself_has_no_difference():
    test, system = many_users()
    one = system(0)
    assert of(paired_differences(one, one, test)).by_event == Estimate(0.0, 0.0, 0.0)


def test_an_event_without_negatives_in_one_system_is_left_out():
    test = OnlineTest.of(small_split())
    a, b = ranks(FixedScores(), test, n_neg=5), ranks(FixedScores(1), test, n_neg=5, sampled_events=20)
    differences = paired_differences(a, b, test, samples=10)
    assert of(differences, kind="sampled").events == 20
    assert of(differences, kind="raw").events == len(test)


def test_ranks_of_other_events_or_other_negatives_are_refused():
    test = OnlineTest.of(small_split())
    a = ranks(FixedScores(), test, n_neg=5)
    with pytest.raises(ConfigError, match="pass the test that the ranks are of"):
        paired_differences(a, a.at(np.arange(3)), test)
    with pytest.raises(ConfigError, match="as many negatives for both systems, got 5 and 7"):
        paired_differences(a, ranks(FixedScores(), test, n_neg=7), test)
