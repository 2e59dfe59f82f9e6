"""The store: states are a function of the ordered events, however these arrive."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.state import EventLog, UserEvent, UserHistories, UserStates, UserStateStore
from shortlist.state.events import log_file
from tests.state.live_world import (
    CATALOGUE,
    HISTORIES,
    NOW,
    SECOND,
    STORAGES,
    USERS,
    applied,
    bits,
    by_hand,
    event,
    histories,
    make_store,
    model,
    random_events,
)

READOUTS = ("plain", "plus", "anchored")
ALL = ("u0", "u1", "u2", "u3", "u4", "u5", "new", 7, "nobody")


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("size", [1, 7, None])
def test_vectors_are_those_of_one_step_after_the_other(readout, size):
    which = model(readout)
    events = random_events(60, ALL[:-1])
    store = applied(make_store(which), events, size)
    expected = torch.stack([by_hand(which, user, events) for user in ALL])
    np.testing.assert_allclose(store.query(ALL).numpy(), expected.numpy(), atol=1e-5)


def test_vectors_are_those_of_the_model_over_the_whole_history():
    which = model()
    store = applied(make_store(which), random_events(60, ALL[:-1]))
    for user in ALL:
        history = torch.tensor([store.history(user)], dtype=torch.int64)
        expected = which.users(history, torch.tensor([store.row(user)]))[0]
        np.testing.assert_allclose(store.query([user])[0].numpy(), expected.detach().numpy(), atol=1e-5)


def test_histories_are_those_of_the_bundle_and_then_the_live_events():
    events = random_events(40)
    store = applied(make_store(), events[::-1], 3)
    own = [CATALOGUE.row(one.item_id) for one in events if one.user_id == "u1"]
    assert store.history("u1") == [*HISTORIES[1], *own]
    assert store.history("nobody") == []
    assert make_store(max_history=2).history("u1") == HISTORIES[1][-2:]
    assert applied(make_store(max_history=2), events).history("u1") == own[-2:]


@pytest.mark.parametrize("storage", STORAGES)
def test_same_event_twice_counts_once(storage):
    """Spec test 31: apply(e); apply(e) = apply(e), in one batch, later, and after other events."""
    events = random_events(30)
    once = applied(make_store(storage=storage), events)
    twice = make_store(storage=storage)
    assert twice.apply([*events, *events[:5]], NOW).duplicates == 5
    report = twice.apply(events[10:20], NOW)
    assert (report.applied, report.duplicates) == (0, 10)
    assert bits(once) == bits(twice)


@pytest.mark.parametrize("storage", STORAGES)
def test_permutation_inside_the_reorder_window_gives_the_same_bytes(storage):
    """Spec test 32."""
    events = random_events(200)
    expected = bits(applied(make_store(storage=storage), events))
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(events))
        store = make_store(storage=storage, reorder_seconds=1000.0)
        applied(store, [events[at] for at in order], size=1 + 3 * seed)
        assert bits(store) == expected
        assert store.report(NOW).events.late == 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_delivery_of_the_same_events_gives_the_same_bytes(data):
    """Order, duplicates, batches, and queries between them."""
    events = random_events(25, seed=data.draw(st.integers(0, 3)), spacing=100.0)
    expected = bits(applied(make_store(), events))
    again = data.draw(st.lists(st.sampled_from(events), max_size=10))
    sent = data.draw(st.permutations([*events, *again]))
    store = make_store(checkpoints=data.draw(st.sampled_from([0, 1, 100])))
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        store.apply(sent[:size], NOW)
        sent = sent[size:]
        if data.draw(st.booleans()):
            store.query(["u0", "new"])
    assert bits(store) == expected


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_late_events_of_long_users_are_replayed_from_a_checkpoint(data):
    """One user, so that records are kept; the bytes are those of a store without any."""
    count = data.draw(st.integers(30, 80))
    events = [event("new", 100 + (7 * at) % 30, at) for at in range(count)]
    late = data.draw(st.sets(st.integers(0, count - 1), max_size=6))
    first = [one for at, one in enumerate(events) if at not in late]
    store = make_store(reorder_seconds=data.draw(st.sampled_from([0.0, 5.0, 50.0])))
    for one in first:
        store.apply([one], NOW)
    for at in data.draw(st.permutations(sorted(late))):
        store.apply([events[at]], NOW)
        if data.draw(st.booleans()):
            store.query(["new"])
    assert bits(store) == bits(applied(make_store(), events))


class Counted(dict):
    """A dictionary that must not be walked."""

    def __iter__(self):
        raise AssertionError("walked over all users whose events came out of order")


def test_batch_costs_the_same_however_many_users_have_events_out_of_order():
    events = [event(user, 100, second, second) for user in range(50) for second in (9, 5)]
    store = applied(make_store(), events, 1)
    assert len(store.log.disordered) == 50
    store.log.disordered = Counted(store.log.disordered)
    more = [event(3, 101, 7, 7), event(3, 101, 11, 11), event("new", 102, 8, 8)]
    store.apply(more, NOW)
    store.log.disordered = dict(store.log.disordered.items())
    assert bits(store, [3, 4, "new"]) == bits(applied(make_store(), [*events, *more]), [3, 4, "new"])


def restarted(log, tmp_path, how):
    if how == "from a snapshot":
        make_store(log=log).snapshot(tmp_path / "snapshot", overwrite=True)
    store = make_store(log=log, reorder_seconds=50.0)
    if how == "from a snapshot":
        store.restore(tmp_path / "snapshot")
    store.query(["new"])
    return store


@pytest.mark.parametrize("how", ["from the log", "from a snapshot"])
def test_events_out_of_order_replay_few_steps_after_a_restart(tmp_path, how, monkeypatch):
    log, events = EventLog(), [event("new", 100 + at % 30, at) for at in range(0, 2000, 2)]
    applied(make_store(log=log), events)
    store = restarted(log, tmp_path, how)
    late = [event("new", 105, second) for second in (1993, 1985, 1999, 1961)]
    steps, after = [], store._tables["one"]._after
    monkeypatch.setattr(
        store._tables["one"],
        "_after",
        lambda events, records: (steps.append(len(events.items)), after(events, records))[1],
    )
    for one in late:
        store.apply([one], NOW)
        store.query(["new"])
    # A snapshot has the last record only, so the first event is replayed from the base.
    assert sum(steps) < (150 if how == "from the log" else 1150)
    assert bits(store, ["new"]) == bits(applied(make_store(), [*events, *late]), ["new"])


@pytest.mark.parametrize("storage", STORAGES)
def test_two_events_of_a_user_in_a_batch_are_two_sequential_applies(storage):
    """Spec test 38."""
    for user in ("new", "u1", "u0"):
        for order in (1, -1):
            pair = [event(user, 105, 1), event(user, 109, 2)][::order]
            one, two = make_store(storage=storage), make_store(storage=storage)
            together = one.apply(pair, NOW)
            apart = [two.apply([single], NOW) for single in pair]
            assert together.applied == sum(report.applied for report in apart) == 2
            assert together.late == sum(report.late for report in apart)
            assert bits(one) == bits(two)


def test_late_events_are_counted_and_replayed_or_dropped():
    events = [event("new", 100, 0), event("new", 101, 1000), event("new", 102, 650), event("new", 103, 700)]
    store = make_store(late="replay")
    assert store.apply(events, NOW).late == 1  # 650 is more than 300 s older than 1000
    assert bits(store) == bits(applied(make_store(), sorted(events, key=lambda one: one.time_ms)))
    dropping = make_store(late="drop")
    report = dropping.apply(events, NOW)
    assert (report.applied, report.late, report.duplicates) == (3, 1, 0)
    assert bits(dropping) == bits(applied(make_store(), [events[0], events[3], events[1]]))
    assert dropping.apply([events[2]], NOW).late == 1  # it comes again and is dropped again
    assert dropping.history("new") == [0, 3, 1]


@pytest.mark.parametrize("readout", READOUTS)
def test_rebuilt_state_is_the_live_one(readout):
    """Spec test 33."""
    store = applied(make_store(model(readout)), random_events(100), 9)
    before = {user: (store.query([user])[0], store.record(user)) for user in ALL}
    for user, (vector, record) in before.items():
        np.testing.assert_allclose(store.rebuild(user), vector, atol=1e-6)
        assert store.record(user) == record


@pytest.mark.parametrize("storage", [*STORAGES])
def test_forgotten_user_begins_from_the_common_start(storage):
    """Spec test 39."""
    which = model()
    store = applied(make_store(which, storage=storage), random_events(100), 9)
    start = make_store(which, storage=storage).query(["nobody"])
    others = bits(store, ("u0", "u2", "u3", 7))
    for user in ("u1", "new", "nobody", "u5"):
        store.forget(user)
        assert store.history(user) == []
        assert store.row(user) == -1
        np.testing.assert_allclose(store.query([user]), start, atol=1e-6)
    assert bits(store, ("u0", "u2", "u3", 7)) == others
    assert not any(one in ("u1", "new") for one in store.log.users)
    fresh = applied(make_store(which, storage=storage), [event("else", 104, 100)])
    store.apply([event("u1", 104, 100)], NOW)
    assert bits(store, ["u1"]) == bits(fresh, ["else"])
    assert store.history("u1") == [4]


def test_forgotten_user_stays_without_the_history_of_a_bundle_with_a_later_end():
    log = EventLog()
    store = applied(make_store(log=log), [event("u1", 104, 5), event("u0", 104, 5)])
    store.forget("u1")
    refreshed = make_store(log=log, since_ms=20 * SECOND)
    assert (refreshed.row("u1"), refreshed.history("u1")) == (-1, [])
    assert refreshed.row("u0") == 0
    applied(store, [event("u1", 107, 9)])  # after the user was forgotten
    refreshed = make_store(log=log, since_ms=20 * SECOND)
    assert refreshed.history("u1") == [7]
    fresh = applied(make_store(), [event("else", 107, 9)])
    assert bits(refreshed, ["u1"]) == bits(fresh, ["else"])


def test_forgotten_user_is_gone_when_the_disk_is_full_and_later_events_stay(tmp_path, monkeypatch):
    """The block about the user is small enough for the disk, the files without the user are not."""

    def full(*_):
        raise OSError(28, "No space left on device")

    log = EventLog(tmp_path)
    store = applied(make_store(log=log), [event("u1", 104, 5), event("new", 104, 5)])
    monkeypatch.setattr(log_file, "_replace", full)
    for user in ("u1", "new"):
        with pytest.raises(OSError, match="No space left"):
            store.forget(user)
        assert (store.history(user), store.row(user)) == ([], -1)
    monkeypatch.undo()
    assert b"new" in (tmp_path / "events-00000000.log").read_bytes()
    applied(store, [event("u1", 107, 9)])
    store.forget("new")  # again, as the client was told
    assert b'"new"' not in (tmp_path / "events-00000000.log").read_bytes()
    expected = bits(store)
    store.close()
    with EventLog(tmp_path) as again:
        assert make_store(log=again).history("u1") == [7]
        assert bits(make_store(log=again)) == expected


def test_event_from_before_the_user_was_forgotten_is_rejected_when_it_is_sent_again(tmp_path):
    with EventLog(tmp_path) as log:
        store = applied(make_store(log=log), [event("u1", 104, 5), event("u0", 104, 7)])
        store.forget("u1")
        assert store.apply([event("u0", 104, 6)], NOW).applied == 1
    with EventLog(tmp_path) as log:
        store = make_store(log=log)
        sent = [event("u1", 104, 5), event("u1", 105, 7), event("u1", 105, 7.001, 8), event("u0", 104, 5)]
        report = store.apply(sent, NOW)
        assert [(one.index, one.code) for one in report.rejected] == [
            (0, "before_forgotten"),
            (1, "before_forgotten"),
        ]
        users, items = [one.user_id for one in sent], [one.item_id for one in sent]
        times = np.array([one.time_ms for one in sent])
        again = store.apply_columns(users, items, times, 100 + np.arange(4), NOW)
        assert again.rejected == report.rejected
        assert store.history("u1") == [5, 5]


def test_changed_users_are_those_with_live_events_or_forgotten():
    store = make_store()
    assert store.changed() == []
    store.apply([event("u0"), event(7), event("5")], NOW)
    store.forget("u1")
    store.forget("nobody")
    assert sorted(map(str, store.changed())) == ["5", "7", "u0", "u1"]
    store.forget("u0")
    store.apply([event("u1", seconds=9)], NOW)
    assert sorted(map(str, store.changed())) == ["5", "7", "u0", "u1"]


def test_number_and_its_text_are_one_user():
    store = make_store()
    store.apply([event("7", 100, 1), event(7, 101, 2)], NOW)
    assert store.history("7") == store.history(7) == [0, 1]


def test_columns_and_events_give_the_same_states():
    events = random_events(80, ("u0", "u1", "new"))
    one, two = applied(make_store(), events), make_store()
    for at in range(0, 80, 20):
        part = events[at : at + 20]
        columns = [[getattr(each, name) for each in part] for name in UserEvent.__slots__]
        users, items, times, ids = columns
        report = two.apply_columns(users, items, np.array(times), np.array(ids), NOW)
        assert report.applied == 20
    assert bits(one) == bits(two)


def test_store_without_a_model_has_histories_only():
    store = UserStateStore(None, USERS, CATALOGUE, histories(), "histories")
    assert store.apply([event("u1", 105, 1), event("new", 105, 1), event("u1", 104, 0)], NOW).applied == 3
    assert store.history("u1") == [*HISTORIES[1], 4, 5]
    assert store.memory().record_bytes == 0
    assert store.report(NOW).users == 2
    for ask in (
        lambda: store.query(["u1"]),
        store.review,
        lambda: store.snapshot("x"),
        lambda: store.promote("u1"),
    ):
        with pytest.raises(ConfigError, match="no model with a user state"):
            ask()
    store.forget("u1")
    assert store.history("u1") == []


def test_events_before_the_bundle_count_neither_when_they_come_nor_in_an_old_log():
    log = EventLog()
    applied(make_store(log=log), [event("new", 100, 5), event("u0", 101, 5), event("u0", 102, 20)])
    later = make_store(log=log, since_ms=10 * SECOND)
    assert later.apply([event("new", 103, 9)], NOW).rejected[0].code == "before_the_bundle"
    assert later.history("u0") == [*HISTORIES[0], 2]
    assert later.history("new") == []
    expected = applied(make_store(), [event("u0", 102, 20)])
    np.testing.assert_allclose(later.query(ALL), expected.query(ALL), atol=1e-6)
    assert bits(later, ["u0"]) == bits(expected, ["u0"])


@pytest.mark.parametrize(("storage", "drift"), [("fp16", 1e-3), ("int8", 0.02)])
def test_drift_of_a_stored_state_is_bounded_over_500_steps(storage, drift):
    """Spec 6: it does not accumulate, since every step forgets a part of the error."""
    torch.manual_seed(1)
    which = TwoTimeScale(TwoTimeScaleConfig(n_items=30, width=64, n_users=6)).eval()
    with torch.no_grad():
        which.items.normal_()
    events = [event("new", 100 + (at * at) % 30, at) for at in range(500)]
    exact, rounded = make_store(which), make_store(which, storage=storage)
    errors = []
    for at in range(0, 500, 50):
        for store in (exact, rounded):
            store.apply(events[at : at + 50], NOW)
        errors.append(float((exact.query(["new"]) - rounded.query(["new"])).abs().max()))
    assert 0 < max(errors) < drift


def test_memory_is_reported_by_part():
    store = applied(make_store(model(width=64, n_active=0)), [event(user, 100, 1) for user in range(2000)])
    memory = store.memory()
    assert (memory.users, memory.events, memory.record_bytes) == (2000, 2000, 288)
    assert memory.records >= 2000 * 288
    assert memory.total == sum(
        (memory.records, memory.user_index, memory.event_columns, memory.event_index, memory.checkpoints)
    )
    assert 288 < memory.bytes_per_user < 2 * 288
    assert 28 <= memory.bytes_per_event < 60
    small = applied(make_store(model(width=64, n_active=0), storage="int8"), [event("a", 100, 1)])
    assert small.memory().record_bytes == 104


def test_history_shorter_than_the_base_is_read_from_the_common_start():
    which = model()
    short = UserHistories(torch.tensor([0, 1, 2]), torch.tensor([5, 6]))
    store = UserStateStore(which, USERS, CATALOGUE, short, "one")
    expected = which.users(torch.tensor([[6]]), torch.tensor([1])).detach()
    np.testing.assert_allclose(store.query(["u1"]).numpy(), expected.numpy(), atol=1e-5)


def test_user_vectors_of_everybody_in_a_model_where_all_have_their_own():
    which = model(all_own=True)
    which.base[-1] = 0  # of unknown users
    events = random_events(40)
    store = applied(make_store(which), events, 3)
    expected = torch.stack([by_hand(which, user, events) for user in ("u1", "new", "nobody")])
    np.testing.assert_allclose(store.query(["u1", "new", "nobody"]).numpy(), expected.numpy(), atol=1e-5)


def test_store_has_the_interface_of_the_service():
    states: UserStates = make_store()
    states.apply([event()], NOW)
    assert states.version == "one"
    states.close()
