"""Logs in which users take items again."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate import power_law, with_repeats

SHARE = 0.4


@pytest.fixture(scope="module")
def log():
    return power_law(size="small")


def had_before(events):
    """Whether the user of each event had its item before."""
    known, found = set(), []
    for pair in zip(events.users.tolist(), events.items.tolist(), strict=True):
        found.append(pair in known)
        known.add(pair)
    return np.array(found)


def test_about_the_given_share_of_the_events_repeats_an_item_of_the_user(log):
    changed = with_repeats(log, SHARE)
    first = changed.events.starts[:-1][changed.events.lengths > 0]
    assert abs(had_before(changed.events).mean() - had_before(log.events).mean() - SHARE) < 0.06
    assert not had_before(changed.events)[first].any()
    assert np.array_equal(changed.events.items[first], log.events.items[first])
    assert np.array_equal(changed.events.times, log.events.times)
    assert changed.name == "power-law-repeats"


def test_without_a_share_the_log_stays(log):
    assert np.array_equal(with_repeats(log, 0.0).events.items, log.events.items)


def test_a_log_depends_only_on_the_seed(log):
    assert with_repeats(log, SHARE, 1).fingerprint == with_repeats(log, SHARE, 1).fingerprint
    assert with_repeats(log, SHARE, 1).fingerprint != with_repeats(log, SHARE, 2).fingerprint


def test_a_share_above_one_is_refused(log):
    with pytest.raises(ConfigError, match="expected a share between 0 and 1, got 1"):
        with_repeats(log, 1.5)
