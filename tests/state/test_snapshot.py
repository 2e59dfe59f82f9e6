"""Snapshots: restored and replayed states are the live ones; others are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.artifact import Lineage, load, save
from shortlist.errors import ArtifactError, VersionMismatch
from shortlist.state import EventLog, MigrationPolicy, UserStateStore
from tests.state.live_world import (
    CATALOGUE,
    HISTORIES,
    NOW,
    SECOND,
    STORAGES,
    USERS,
    applied,
    bits,
    event,
    histories,
    make_store,
    model,
    random_events,
)

ALL = ("u0", "u1", "u2", "u3", "new", 7, "later")


def restored(path, log, **settings):
    store = make_store(log=log, **settings)
    return store, store.restore(path)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("shuffled", [False, True])
def test_snapshot_and_replay_is_the_live_state(tmp_path, storage, shuffled):
    """Spec test 34: with the log in memory and from its files, with late events after the snapshot too."""
    events = random_events(120)
    order = np.random.default_rng(0).permutation(120) if shuffled else np.arange(120)
    log = EventLog(tmp_path / "log")
    live = make_store(log=log, storage=storage)
    applied(live, [events[at] for at in order[:80]], 9)
    live.snapshot(tmp_path / "snapshot")
    applied(live, [*(events[at] for at in order[80:]), event("later", 100, 5000)], 9)
    expected = bits(live, ALL)
    store, replayed = restored(tmp_path / "snapshot", log, storage=storage)
    assert replayed == 41
    assert bits(store, ALL) == expected
    log.close()
    with EventLog(tmp_path / "log") as again:
        store, replayed = restored(tmp_path / "snapshot", again, storage=storage)
        assert replayed == 41
        assert bits(store, ALL) == expected
        assert bits(make_store(log=again, storage=storage), ALL) == expected  # without a snapshot too
    assert bits(applied(make_store(storage=storage), [*events, event("later", 100, 5000)]), ALL) == expected


def test_restored_states_are_those_of_the_snapshot_and_not_computed_again(tmp_path):
    log = EventLog()
    live = applied(make_store(log=log), random_events(50))
    live.snapshot(tmp_path / "snapshot")
    store, replayed = restored(tmp_path / "snapshot", log)
    assert replayed == 0
    assert store.report(NOW).users_by_version == {"one": 5}


def test_snapshot_replaces_an_older_one_only_if_it_may(tmp_path):
    store = applied(make_store(), random_events(20))
    store.snapshot(tmp_path / "one")
    with pytest.raises(ArtifactError, match="already holds"):
        store.snapshot(tmp_path / "one")
    store.snapshot(tmp_path / "one", overwrite=True)


def test_snapshot_of_another_model_version_is_refused(tmp_path):
    """Spec test 35."""
    log = EventLog()
    applied(make_store(log=log, version="one"), random_events(20)).snapshot(tmp_path / "snapshot")
    store = make_store(log=log, version="two")
    with pytest.raises(VersionMismatch, match="model version one, expected two"):
        store.restore(tmp_path / "snapshot")


def test_snapshot_of_another_number_format_is_refused(tmp_path):
    log = EventLog()
    applied(make_store(log=log), random_events(20)).snapshot(tmp_path / "snapshot")
    with pytest.raises(ArtifactError, match="storage fp32, expected int8"):
        make_store(log=log, storage="int8").restore(tmp_path / "snapshot")


def test_damaged_snapshot_is_refused_and_changes_nothing(tmp_path):
    """At some bytes of every file."""
    log = EventLog()
    live = applied(make_store(log=log), random_events(20))
    expected = bits(live)
    live.snapshot(tmp_path / "snapshot")
    for path in sorted((tmp_path / "snapshot").iterdir()):
        data = path.read_bytes()
        for at in np.linspace(0, len(data) - 1, 7).astype(int):
            damaged = bytearray(data)
            damaged[at] ^= 0x40
            path.write_bytes(damaged)
            with pytest.raises(ArtifactError):
                live.restore(tmp_path / "snapshot")
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(ArtifactError):
            live.restore(tmp_path / "snapshot")
        path.write_bytes(data)
    assert bits(live) == expected
    live.restore(tmp_path / "snapshot")
    assert bits(live) == expected


def named(log):
    log.identity = "the same"
    return log


def test_snapshot_of_another_log_is_refused(tmp_path):
    events = random_events(30)
    applied(make_store(), events).snapshot(tmp_path / "snapshot")
    with pytest.raises(ArtifactError, match=r"has log \w+, expected \w+"):  # even with the same events
        applied(make_store(), events).restore(tmp_path / "snapshot")


def test_snapshot_of_an_older_copy_of_the_log_is_refused(tmp_path):
    events = random_events(30)
    applied(make_store(log=named(EventLog())), events).snapshot(tmp_path / "snapshot")
    with pytest.raises(ArtifactError, match="after 30 events, the log has 10"):
        applied(make_store(log=named(EventLog())), events[:10]).restore(tmp_path / "snapshot")
    others = (
        [replace(one, event_id=one.event_id + 1) for one in events],
        random_events(30, seed=5, spacing=3.0),
    )
    for other in others:
        with pytest.raises(ArtifactError, match="last event of"):
            applied(make_store(log=named(EventLog())), other).restore(tmp_path / "snapshot")


def test_snapshot_of_another_bundle_is_refused(tmp_path):
    log = EventLog()
    live = applied(make_store(log=log), random_events(30))
    live.snapshot(tmp_path / "snapshot")
    with pytest.raises(ArtifactError, match="has since_ms 0, expected 5000"):
        make_store(log=log, since_ms=5000).restore(tmp_path / "snapshot")
    lists = [[1, 2, 4], *HISTORIES[1:]]  # another item of u0
    other = UserStateStore(model(), USERS, CATALOGUE, histories(lists), "one", log=log)
    with pytest.raises(ArtifactError, match=r"has bundle \w+, expected \w+"):
        other.restore(tmp_path / "snapshot")


def test_identity_of_a_log_is_in_its_files(tmp_path):
    with EventLog(tmp_path) as log:
        live = applied(make_store(log=log), random_events(30))
        live.forget("u0")
        live.snapshot(tmp_path / "snapshot")
        identity = log.identity
    with EventLog(tmp_path) as log:
        assert log.identity == identity
        assert make_store(log=log).restore(tmp_path / "snapshot") == 0


def test_nan_in_a_snapshot_is_refused(tmp_path):
    """Written by a store whose record was changed."""
    live = applied(make_store(), random_events(20))
    table = live._tables["one"]
    table.records.values["vector"][0, 0] = np.nan
    live.snapshot(tmp_path / "snapshot")
    with pytest.raises(ArtifactError, match="not finite"):
        live.restore(tmp_path / "snapshot")


def test_forgotten_user_is_in_no_given_snapshot(tmp_path):
    """Spec test 39, for snapshots."""
    log = EventLog()
    live = applied(make_store(log=log), [*random_events(60), event("secret", 100, 100)])
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        live.snapshot(path)
    others = bits(live, ("u0", "u1", "u3", "new", 7))
    live.forget("secret", paths)
    live.forget("not there", paths)
    for path in paths:
        assert all(b"secret" not in one.read_bytes() for one in path.iterdir())
        store, _ = restored(path, log)
        assert bits(store, ("u0", "u1", "u3", "new", 7)) == others
        assert load(path).tensors("states.safetensors")["users"].tolist() == [0, 1, 2, 3, 4]
        assert store.report(NOW).users_by_version == {"one": 5}


def test_user_who_was_forgotten_after_a_snapshot_is_not_restored(tmp_path):
    log = EventLog()
    live = applied(make_store(log=log), random_events(60))
    live.snapshot(tmp_path / "snapshot")
    live.forget("new")
    live.apply([event("new", 105, 500)], NOW)
    store, _ = restored(tmp_path / "snapshot", log)
    assert bits(store) == bits(live)
    assert store.history("new") == [5]


def test_promoted_users_and_cuts_are_in_the_snapshot(tmp_path):
    log = EventLog()
    live = applied(make_store(log=log), random_events(80))
    assert live.review().promoted == 3
    live.migrate(model("plain", seed=4), "two", 80 * SECOND, MigrationPolicy(last_events=5))
    live.switch("two")
    live.snapshot(tmp_path / "snapshot")
    late = [event("u0", 107, 0.5, 10**6), event("new", 107, 79.5, 10**6), event("u0", 108, 500)]
    users = ("u0", "u1", "u3", "new", 7)
    expected = applied(live, late).query(users).numpy()
    store = make_store(model("plain", seed=4), log=log, version="two")
    store.restore(tmp_path / "snapshot")
    np.testing.assert_allclose(store.query(users).numpy(), expected, atol=1e-5)
    assert not torch.allclose(
        store.query(users),
        applied(make_store(model("plain", seed=4)), [*random_events(80), *late]).query(users),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"users": torch.zeros(3, dtype=torch.int64)},
        {"users": torch.full((5,), -1)},
        {"users": torch.zeros(5)},
        {"records": torch.zeros(5, 7, dtype=torch.uint8)},
        {"records": torch.zeros(5, 64)},
        {"cut": torch.zeros(1, dtype=torch.int64)},
        {"more": torch.zeros(1)},
    ],
)
def test_snapshot_with_other_contents_is_refused(tmp_path, change):
    """As if written by another program: its checksums are right."""
    live = applied(make_store(), random_events(20))
    live.snapshot(tmp_path / "snapshot")
    found = load(tmp_path / "snapshot", "user_states")
    parts = {"states.safetensors": found.tensors("states.safetensors") | change}
    save(tmp_path / "other", "user_states", parts, Lineage(), found.about)
    with pytest.raises(ArtifactError):
        live.restore(tmp_path / "other")


def test_offset_that_is_none_is_refused(tmp_path):
    live = applied(make_store(), random_events(20))
    live.snapshot(tmp_path / "snapshot")
    found = load(tmp_path / "snapshot", "user_states")
    parts = {"states.safetensors": found.tensors("states.safetensors")}
    save(tmp_path / "other", "user_states", parts, Lineage(), {**found.about, "offset": -1})
    with pytest.raises(ArtifactError, match="after -1 events"):
        live.restore(tmp_path / "other")
