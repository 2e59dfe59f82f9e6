"""The choice of a protocol from a log."""

import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.data.choose_split import choose_split
from shortlist.data.split import split
from shortlist.errors import ConfigError


def log(lengths, times="joined", n_items=50):
    """Users with these numbers of events: `joined` one after the other, or `mixed` all over the time."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(len(lengths)), lengths)
    when = np.arange(len(users)) if times == "joined" else rng.permutation(len(users))
    return Interactions.of(
        users, rng.integers(0, n_items, len(users)), when, n_users=len(lengths), n_items=n_items
    )


def test_log_of_returning_users_is_split_by_time():
    chosen = choose_split(log([20] * 400, "mixed"), "ms")
    assert chosen.settings == {"protocol": "global-time"}
    assert "users of a held-out window of time have earlier events; training uses the past" in chosen.reason


def test_log_of_short_histories_is_split_by_the_last_events_of_each_user():
    chosen = choose_split(log([4] * 500), "ms")
    assert chosen.settings == {"protocol": "leave-last-out"}
    assert "the median user has 4 events, and the last two events of 500 of 500 users" in chosen.reason
    left = split(log([4] * 500), **chosen.settings).left_out
    assert (left.users, left.events) == (0, 0)


def test_log_of_many_long_histories_without_returning_users_is_split_by_users():
    assert choose_split(log([16] * 1000), "ms", seed=3).settings == {"protocol": "half-history", "seed": 3}
    assert choose_split(log([16] * 999), "ms").settings["protocol"] == "leave-last-out"


def test_log_without_times_is_never_split_by_time_if_users_have_histories():
    chosen = choose_split(log([4] * 500, "mixed"), "order")
    assert chosen.settings["protocol"] == "leave-last-out"
    assert "the log has no times" in chosen.reason


def test_log_with_one_event_per_user_is_split_by_time():
    assert choose_split(log([1] * 50), "ms").settings["protocol"] == "global-time"
    assert "rows of the file" in choose_split(log([1] * 50), "order").reason


def test_log_that_no_protocol_can_split_says_that_nothing_can_be_measured():
    one = Interactions.of(np.arange(3), np.zeros(3, int), np.zeros(3, int), n_users=3, n_items=1)
    assert "nothing can be measured: none of 3 users has 3 events or more" in choose_split(one, "ms").reason


def test_a_named_protocol_and_its_settings_are_kept_without_a_reason():
    chosen = choose_split(log([4] * 50), "ms", "half-history", 7, min_length=2, held_out=None)
    assert (dict(chosen.settings), chosen.reason) == (
        {"protocol": "half-history", "seed": 7, "min_length": 2},
        "",
    )


def test_a_setting_of_another_protocol_is_refused_in_the_spelling_of_the_command_line():
    with pytest.raises(
        ConfigError, match="has no --min-length; its options are --train-share, --valid-share"
    ):
        choose_split(log([4] * 50), "ms", "global-time", min_length=2)


def test_a_split_that_leaves_out_many_users_says_so_with_numbers():
    events = log([20] * 20 + [4] * 80)
    found = split(events, "half-history")
    assert (found.left_out.users, found.left_out.events) == (80, 320)
    assert (
        "leaves out 80 of 100 users (80%) and 320 of 720 events (44%); 15 is the least number"
        in found.warning
    )
    assert "--split auto or leave-last-out, or with a lower --min-length" in found.warning
    assert split(events, "half-history", min_length=4).warning == ""


@pytest.mark.parametrize("protocol", ["leave-last-out", "global-time"])
def test_left_out_counts_agree_with_a_plain_loop(protocol):
    events = log(np.random.default_rng(1).integers(1, 9, 60).tolist())
    found = split(events, protocol)
    used = set(np.flatnonzero(found.in_train).tolist())
    for part in (found.valid, found.test):
        for start, stop in zip(part.starts, part.stops, strict=True):
            used |= set(range(start, stop))
    assert found.left_out.events == len(events) - len(used)
    assert found.left_out.users == 60 - len({int(events.users[at]) for at in used})


def test_reason_names_the_users_of_a_window_not_a_share_of_nobody():
    few = choose_split(log([20] * 40, "mixed"), "ms").reason
    assert "a held-out window of time has 34 users with earlier events (at least 100 are needed)" in few
    one_time = Interactions.of(np.repeat(np.arange(9), 4), np.tile(np.arange(4), 9), np.zeros(36, int))
    assert "the events have too few different times" in choose_split(one_time, "ms").reason


@pytest.mark.parametrize("protocol", ["half-history", "leave-last-out"])
def test_least_length_below_one_is_refused(protocol):
    with pytest.raises(ConfigError, match="--min-length must be 1 or more, got -5"):
        split(log([4] * 50), protocol, min_length=-5)
