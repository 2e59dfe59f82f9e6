"""From one model to another: both versions are served, and each has the states it would have had from the start."""

import math

import numpy as np
import pytest
import torch

from shortlist.data import Vocabulary
from shortlist.errors import ConfigError, VersionMismatch
from shortlist.state import MigrationPolicy
from shortlist.state.migration import DAY_MS
from tests.state.live_world import (
    CATALOGUE,
    ITEMS,
    NOW,
    SECOND,
    applied,
    bits,
    by_hand,
    event,
    histories,
    make_store,
    model,
    random_events,
)

ALL = ("u0", "u1", "u2", "u3", "new", 7)
EVENTS = random_events(90)


def migrated(policy=None, events=EVENTS, new=None, now_ms=0, **bundle):
    store = applied(make_store(), events, 8)
    new = model(seed=1) if new is None else new
    return store, store.migrate(new, "two", now_ms, policy or MigrationPolicy(), **bundle)


@pytest.mark.parametrize("days", [0.0, 1000.0])
def test_new_version_has_the_states_of_a_store_that_began_with_it(days):
    """Replayed at once, or at the next visit."""
    store, report = migrated(MigrationPolicy(recent_days=days), now_ms=NOW if days == 0 else 0)
    assert (report.users, report.replayed, report.lazy) == ((5, 0, 5) if days == 0 else (5, 5, 0))
    expected = applied(make_store(model(seed=1)), EVENTS)
    assert bits(store, ALL, "two") == bits(expected, ALL)
    more = random_events(30, seed=9, spacing=50.0)
    applied(store, more, 4)
    applied(expected, more)
    assert bits(store, ALL, "two") == bits(expected, ALL)
    assert bits(store, ALL) == bits(applied(make_store(), [*EVENTS, *more]), ALL)


def test_recently_seen_users_are_replayed_at_once():
    late = [event("u0", 100, 10 * DAY_MS // SECOND), event("u1", 100, 20 * DAY_MS // SECOND)]
    store, report = migrated(MigrationPolicy(recent_days=5), [*EVENTS, *late], now_ms=21 * DAY_MS)
    assert (report.replayed, report.lazy) == (1, 4)
    assert store.report(NOW).users_by_version == {"one": 5, "two": 1}


def test_lazy_user_is_computed_with_the_first_event():
    store, _ = migrated(MigrationPolicy(recent_days=0), now_ms=NOW)
    store.apply([event("new", 103, 500)], NOW)
    assert store.report(NOW).users_by_version == {"one": 5, "two": 1}
    expected = applied(make_store(model(seed=1)), [*EVENTS, event("new", 103, 500)])
    assert bits(store, ["new"], "two") == bits(expected, ["new"])


def test_switch_and_back_is_a_change_of_the_pointer():
    store, _ = migrated()
    one = bits(store)
    store.switch("two")
    assert store.version == "two"
    assert bits(store) != one
    assert store.versions == ("one", "two")
    store.switch("one")
    assert bits(store) == one
    with pytest.raises(ConfigError, match="is served"):
        store.retire("one")
    store.retire("two")
    assert store.versions == ("one",)
    with pytest.raises(VersionMismatch):
        store.switch("two")
    with pytest.raises(ConfigError, match="there already"):
        store.migrate(model(seed=1), "one", 0)


def test_only_the_last_events_are_replayed_where_the_policy_says_so():
    store, report = migrated(MigrationPolicy(last_events=4))
    which = model(seed=1)
    left_out = 0
    for user in ("u0", "u1", "new"):
        own = [one for one in EVENTS if one.user_id == user]
        expected = by_hand(which, user, own[-4:])
        np.testing.assert_allclose(store.query([user], "two")[0], expected, atol=1e-5)
        left_out += len(own) - 4
    assert report.events_left_out == len(EVENTS) - 5 * 4 >= left_out
    store.apply([event("new", 108, 0.5, 10**6)], NOW)  # older than the cut: in no state of the new version
    np.testing.assert_allclose(
        store.query(["new"], "two")[0],
        by_hand(which, "new", [one for one in EVENTS if one.user_id == "new"][-4:]),
        atol=1e-5,
    )


def test_bundle_of_the_new_model_may_have_other_users_items_and_histories():
    """Its histories have the events up to its time; an item it does not have changes no state."""
    items = Vocabulary.of([*reversed(CATALOGUE.ids_of(range(ITEMS)[1:])), 500])
    users = Vocabulary.of(["new", "u3", "u0"])
    lists = [[3, 4], [5], [6, 7, 8]]
    new = model("plain", seed=1, n_users=3, n_active=0)
    bundle = {"users": users, "items": items, "histories": histories(lists), "since_ms": 40 * SECOND}
    store, report = migrated(new=new, **bundle)
    assert report.unknown_items == 1
    store.switch("two")
    own = [
        one for one in EVENTS if one.user_id == "new" and one.time_ms >= 40 * SECOND and one.item_id != 100
    ]
    history = lists[0] + [items.row(one.item_id) for one in own]
    assert store.history("new") == history
    expected = new.users(torch.tensor([history])).detach()
    np.testing.assert_allclose(store.query(["new"]), expected, atol=1e-5)
    assert store.apply([event("new", 500, 600), event("new", 100, 601)], NOW).applied == 1
    assert store.history("new") == [*history, 29]


def gauged(angle=0.5):
    """A model whose user vectors are a linear map of those of `model("plus")`: another readout and other items."""
    old, new = model("plus", n_active=0), model("plus", n_active=0)
    matrix = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)))[0] * angle
    with torch.no_grad():
        new.mix["new"].weight.copy_(matrix @ old.mix["new"].weight)
    return old, new


def many(count=60):
    users = [f"user {number}" for number in range(count)]
    return [
        event(user, 100 + (7 * at + 3 * number) % 30, at, at)
        for number, user in enumerate(users)
        for at in range(6)
    ]


@pytest.mark.parametrize("storage", ["fp32", "int8"])
def test_others_have_mapped_vectors_until_their_next_visit_if_the_map_is_good(storage):
    old, new = gauged()
    recent = [event(f"user {number}", 105, 10 * DAY_MS // SECOND, 99) for number in range(40)]
    store = applied(make_store(old, storage=storage), [*many(), *recent])
    policy = MigrationPolicy(recent_days=1, interim=True)
    report = store.migrate(new, "two", 10 * DAY_MS, policy)
    assert (report.replayed, report.lazy, report.interim, report.held_out) == (40, 20, 20, 8)
    assert report.correlation > 0.99
    assert report.map_allowed
    expected = applied(make_store(new, storage=storage), many())
    mapped = store.query(["user 50"], "two")
    assert store.report(NOW).interim == 0  # of the served version
    np.testing.assert_allclose(mapped, expected.query(["user 50"]), atol=5e-3 if storage == "fp32" else 0.1)
    store.switch("two")
    assert store.report(NOW).interim == 20
    visit = [event("user 50", 100, 10 * DAY_MS // SECOND, 99)]
    assert bits(applied(store, visit), ["user 50"]) == bits(applied(expected, visit), ["user 50"])
    assert store.report(NOW).interim == 19


def test_map_that_is_not_good_enough_is_not_used():
    store = applied(make_store(model("plain", n_active=0)), many(40))
    report = store.migrate(
        model("plain", n_active=0, seed=3), "two", NOW, MigrationPolicy(recent_days=0, interim=True)
    )
    assert (report.lazy, report.interim, report.map_allowed) == (40, 0, False)
    assert math.isnan(report.correlation)


def test_promoted_users_stay_promoted_down_to_a_tenth_below_the_new_threshold():
    """Spec 2.3: hysteresis."""
    events = [event("new", 100 + at, at) for at in range(19)] + [
        event("few", 100 + at, at) for at in range(16)
    ]
    for threshold, count in ((20, 1), (18, 1), (22, 0), (17, 2)):
        store = applied(make_store(model(threshold=10)), events)
        assert store.review().promoted == 2
        store.migrate(model(seed=1, threshold=threshold), "two", 0)
        store.switch("two")
        assert store.report(NOW).promoted == count


def test_forgotten_user_is_unknown_after_a_restart_with_the_migrated_bundle():
    store, _ = migrated(events=EVENTS[:20], since_ms=50 * SECOND)
    store.forget("u1")
    later = make_store(model(seed=1), log=store.log, version="two", since_ms=50 * SECOND)
    assert (later.row("u1"), later.history("u1")) == (-1, [])


def test_changed_users_are_those_of_a_version():
    store, _ = migrated(users=Vocabulary.of(["new", "u3", "u0"]), events=EVENTS[:3])
    for user in ("u5", "u3"):
        store.forget(user)
    assert "u5" in store.changed("one")
    assert "u5" not in store.changed("two")
    assert "u3" in store.changed("two")
    with pytest.raises(VersionMismatch):
        store.changed("three")


def test_forgotten_user_is_in_no_version():
    store, _ = migrated(MigrationPolicy(last_events=3))
    store.forget("new")
    assert store.report(NOW).users_by_version == {"one": 4, "two": 4}
    for version, which in (("one", model()), ("two", model(seed=1))):
        np.testing.assert_allclose(store.query(["new"], version)[0], by_hand(which, "nobody", []), atol=1e-6)
