"""What a store reports about its states."""

import math

import numpy as np
import pytest

from shortlist.errors import VersionMismatch
from tests.state.live_world import CATALOGUE, NOW, applied, by_hand, event, make_store, model


def test_report_of_an_empty_store_has_no_numbers():
    report = make_store().report(NOW)
    assert (report.users, report.active, report.dirty) == (0, 0, 0)
    assert report.users_by_version == {"one": 0}
    assert math.isnan(report.late_share)
    assert math.isnan(report.mismatched_share)
    assert math.isnan(report.staleness_ms["p50"])
    assert math.isnan(report.step_norm["active"])
    assert math.isnan(report.next_event_loss["active"])


def test_report_counts_users_events_and_steps():
    store = applied(make_store(), [event("new", 100, 1000), event("u1", 101, 1001), event("u1", 102, 1002)])
    applied(
        store,
        [event("new", 100, 1000), event("new", 103, 500), event("new", 104, 999), event("x", 999, 1)],
        1,
    )
    report = store.report(2_000_000)
    assert (report.version, report.users, report.active, report.promoted) == ("one", 2, 1, 0)
    assert (
        report.events.applied,
        report.events.duplicates,
        report.events.late,
        report.events.disordered,
    ) == (5, 1, 1, 2)
    assert report.late_share == pytest.approx(1 / 7)
    assert report.disordered_share == pytest.approx(2 / 7)
    assert report.dirty == 1
    assert report.staleness_ms["p50"] == pytest.approx((1_000_000 + 998_000) / 2)
    assert report.step_norm["new"] > 0
    assert math.isnan(report.step_norm["active"])  # two events in one batch are no single step
    store.query(["new", "u0", "u1"])
    assert store.report(NOW).dirty == 0
    with pytest.raises(VersionMismatch):
        store.query(["new"], "two")
    assert store.report(NOW).mismatched_share == pytest.approx(1 / 4)
    assert store.report(NOW).steps_since_base["p95"] == pytest.approx(3.95)


def test_next_event_loss_is_that_of_the_state_before_the_event():
    which = model()
    store, events = make_store(which), [event("new", 104, 1), event("u1", 107, 2), event("new", 109, 3)]
    applied(store, events, 1)
    found = {"new": [], "active": []}
    for at, one in enumerate(events):
        scores = which.items @ by_hand(which, one.user_id, events[:at])
        group = "active" if one.user_id == "u1" else "new"
        found[group].append(float(scores.logsumexp(0) - scores[CATALOGUE.row(one.item_id)]))
    report = store.report(NOW)
    assert report.next_event_loss["active"] == pytest.approx(found["active"][0], rel=1e-4)
    assert report.next_event_loss["new"] == pytest.approx(np.mean(found["new"]), rel=1e-3)


def test_dropped_events_are_of_those_that_were_offered():
    store = make_store(late="drop")
    applied(store, [event("new", 100, 1000), *(event("new", 100, second) for second in range(9))])
    report = store.report(NOW)
    assert (report.events.applied, report.events.late, report.events.dropped) == (1, 9, 9)
    assert report.late_share == pytest.approx(0.9)


def test_steps_since_the_base_saturate():
    store = make_store(model("plain"))
    table = store._tables["one"]
    applied(store, [event("new", 100, 1)])
    table.records.values["steps_since_base"][0] = 65_534
    for second in (2, 3, 4):
        store.apply([event("new", 100, second)], NOW)
    assert store.report(NOW).steps_since_base["p50"] == 65_535
