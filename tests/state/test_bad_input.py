"""What goes wrong: bad events, failing disks, threads, users with many events, models that fit nothing."""

import math
import threading

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError, DataError, VersionMismatch
from shortlist.state import UserEvent
from tests.state.live_world import (
    NOW,
    SECOND,
    applied,
    bits,
    event,
    make_store,
    model,
    random_events,
)


def test_version_that_is_not_there_is_refused():
    """Spec test 35."""
    store = make_store(version="one")
    assert store.query(["u0"], "one").shape == (1, 8)
    with pytest.raises(VersionMismatch, match="expected version one, got two"):
        store.query(["u0"], "two")


def test_all_events_of_a_batch_or_none():
    """Every place that can fail."""
    events = random_events(40)
    store = applied(make_store(), events[:20])
    before = bits(store), store.changed(), store.log.size

    def full(*_):
        raise OSError(28, "No space left on device")

    append, store.log.append = store.log.append, full
    with pytest.raises(OSError, match="No space left"):
        store.apply([*events[20:], event("fresh", 100, 99)], NOW)
    store.log.append = append
    assert (bits(store), store.changed(), store.log.size) == before
    with pytest.raises(AttributeError):
        store.apply([*events[20:30], None], NOW)
    assert (bits(store), store.changed(), store.log.size) == before
    assert bits(applied(store, events[20:])) == bits(applied(make_store(), events))


def test_invalid_events_of_a_batch_are_left_out_with_their_reasons():
    store = make_store()
    report = store.apply(
        [
            event("new", 100, 1),
            event("new", 999, 2),
            event("", 100, 3),
            event("new", 100, -1),
            event("new", 100, 1e9),
        ],
        NOW // 1000,
    )
    assert report.applied == 1
    assert [(one.index, one.code) for one in report.rejected] == [
        (1, "unknown_items"),
        (2, "bad_ids"),
        (3, "bad_ids"),
        (4, "bad_ids"),
    ]
    times = [UserEvent("new", 100, -1, 5), UserEvent("new", 100, 2**50, 6), UserEvent("new", 100, NOW, 7)]
    report = store.apply(times, NOW // 1000)
    assert [one.code for one in report.rejected] == ["bad_times", "bad_times", "from_the_future"]
    assert store.history("new") == [0]
    assert store.report(NOW).events.rejected == {
        "unknown_items": 1,
        "bad_ids": 3,
        "bad_times": 2,
        "from_the_future": 1,
    }
    assert store.apply([], NOW).applied == 0


@pytest.mark.parametrize("now_ms", [math.nan, None, 1e12, "5", True])
def test_time_that_is_none_is_refused(now_ms):
    store, columns = make_store(), (["u0"], [100], np.array([10**15]), np.array([1]))
    for call in (lambda: store.apply([event()], now_ms), lambda: store.apply_columns(*columns, now_ms)):
        with pytest.raises(DataError, match="expected now_ms in whole milliseconds since 1970, got"):
            call()
    assert store.history("u0") == [1, 2, 3]


def test_threads_apply_and_query_at_once():
    users = [f"user {number}" for number in range(8)]
    events = {user: [event(user, 100 + (3 * at) % 30, at, 100 * at) for at in range(60)] for user in users}
    store, errors = make_store(), []

    def work(user):
        try:
            for at in range(0, 60, 4):
                store.apply(events[user][at : at + 4][::-1], NOW)
                store.query(users)
                store.history(user)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in users for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    expected = applied(make_store(), [one for own in events.values() for one in own])
    assert bits(store, users) == bits(expected, users)
    assert store.report(NOW).events.duplicates == 8 * 60


def test_user_with_many_events_has_a_bounded_history():
    count = 20_000
    store = make_store(max_history=100)
    ids = np.arange(count)
    for at in range(0, count, 2000):
        part = ids[at : at + 2000]
        report = store.apply_columns(
            ["heavy"] * 2000, (100 + part % 30).tolist(), SECOND * (part + 1), part, NOW
        )
        assert report.applied == 2000
    assert store.history("heavy") == [int(at % 30) for at in range(count - 100, count)]
    whole = make_store()
    whole.apply_columns(["heavy"] * count, (100 + ids % 30).tolist(), SECOND * (ids + 1), ids, NOW)
    assert bits(store, ["heavy"]) == bits(whole, ["heavy"])
    assert store.memory().checkpoints < 10_000


def test_model_that_holds_nan_is_refused():
    which = model()
    with torch.no_grad():
        which.items[3, 2] = math.nan
    with pytest.raises(ArtifactError, match="NaN or infinite"):
        make_store(which)


def test_model_of_another_catalogue_is_refused():
    with pytest.raises(ArtifactError, match="5 item vectors and the catalogue 30 items"):
        make_store(model(n_items=5))
