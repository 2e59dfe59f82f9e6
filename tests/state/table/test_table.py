"""Users who get a vector of their own after the training, and lose it."""

import numpy as np
import pytest
import torch

from shortlist.models.fold_in import fold_in, sums_of
from shortlist.state import EventLog, StateSettings, UserStateStore
from tests.state.live_world import (
    CATALOGUE,
    HISTORIES,
    LAST,
    NOW,
    USERS,
    applied,
    bits,
    event,
    histories,
    in_order,
    make_store,
    model,
)

BASE = 4 - LAST  # a user is promoted with 4 events


def steps(user, count, first=0):
    return [event(user, 100 + (7 * at + 2) % 30, at) for at in range(first, first + count)]


@torch.no_grad()
def promoted_by_hand(which, items, events):
    """The vector after the fit to the first events and the replay of the others by the active recurrence."""
    rule = which.promotion()
    rows, count = torch.tensor(items[:events], dtype=torch.int64), torch.tensor([min(events, len(items))])
    own = fold_in(sums_of(rows, which.inputs(), count), count, which.inputs(), rule.mean, rule.prior)
    active, gru = torch.tensor([True]), which.recurrence(True)
    state = which.starts_of(active, own)
    for item in items[events:]:
        given = which.inputs()[item : item + 1]
        given = torch.cat([given, own], 1) if gru.w_input.shape[1] > given.shape[1] else given
        state = torch.gru_cell(given, state, gru.w_input, gru.w_state, gru.b_input, gru.b_state)
    return which.readout_of(state, torch.tensor(items[-1:]), active, own)[0]


def items_after(user, events):
    row = USERS.row(user)
    own = [CATALOGUE.row(one.item_id) for one in in_order(events)]
    return (list(HISTORIES[row]) if row >= 0 else []) + own


@pytest.mark.parametrize("readout", ["plain", "plus", "anchored"])
@pytest.mark.parametrize(("user", "count"), [("new", 6), ("u0", 2), ("u2", 12)])
def test_promoted_user_has_a_fitted_vector_and_the_last_events_replayed(readout, user, count):
    """Spec 2.3; the first events of u0 are those of the bundle."""
    which = model(readout)
    events = steps(user, count)
    store = applied(make_store(which), events)
    before = store.query([user])
    assert store.review().promoted == 1
    items = items_after(user, events)
    base = BASE
    np.testing.assert_allclose(store.query([user])[0], promoted_by_hand(which, items, base), atol=1e-5)
    assert not torch.allclose(store.query([user]), before)
    later = steps(user, 3, first=50)
    applied(store, later, 1)
    items = items_after(user, [*events, *later])
    np.testing.assert_allclose(store.query([user])[0], promoted_by_hand(which, items, base), atol=1e-5)
    np.testing.assert_allclose(store.rebuild(user), store.query([user])[0], atol=1e-6)
    report = store.report(NOW)
    assert (report.promoted, report.active) == (1, 1)


def test_users_are_promoted_when_they_have_passed_the_threshold_by_a_tenth():
    """Hysteresis of spec 2.3: the threshold is 3, so 4 events are enough and 3 are not."""
    store = applied(make_store(), steps("new", 3))
    assert store.review().promoted == 0
    store.apply(steps("new", 1, first=3), NOW)
    assert (store.review().promoted, store.review().promoted) == (1, 0)
    assert store.promote("new") is False


@pytest.mark.parametrize("user", ["new", "u0", "u2"])
def test_it_does_not_matter_when_a_user_is_promoted(user):
    """After 6 or all 20 of the same events, event by event or out of order, with records or without."""
    events = steps(user, 20)
    early = applied(make_store(), events[:6])
    early.review()
    applied(early, events[6:], 1)
    late = applied(make_store(), events[::-1], 3)
    log = late.log
    assert late.review().promoted == 1
    rebuilt = make_store(log=log)  # as after a kill: it has no records
    assert rebuilt.review().promoted == 1
    assert bits(early, [user]) == bits(late, [user]) == bits(rebuilt, [user])


def test_review_gives_users_who_were_promoted_early_the_vector_of_all_others():
    """On request, or taken over from a version with another threshold."""
    events = steps("new", 12)
    store = applied(make_store(), events[:3])
    store.promote("new")
    applied(store, events[3:])
    assert (store.review().promoted, store.review().promoted) == (1, 0)
    expected = applied(make_store(), events)
    expected.review()
    assert bits(store, ["new"]) == bits(expected, ["new"])


def test_events_that_are_in_a_later_bundle_count_for_the_promotion():
    log = EventLog()
    applied(make_store(log=log), steps("u0", 2))
    lists = [[1, 2, 3, 2, 9], *HISTORIES[1:]]  # of u0, after a refresh
    bundle = USERS, CATALOGUE, histories(lists), "one", StateSettings(), log
    store = UserStateStore(model(), *bundle, since_ms=2000)
    assert store.review().promoted == 1
    expected = promoted_by_hand(model(), lists[0], BASE)
    np.testing.assert_allclose(store.query(["u0"])[0], expected, atol=1e-5)


def test_active_and_forgotten_users_are_not_promoted():
    store = applied(make_store(), [*steps("u1", 12), *steps("u0", 12), *steps("new", 12)])
    store.forget("u0")
    assert store.review().promoted == 1  # u1 is active in the bundle
    assert store.report(NOW).promoted == 1


def test_user_is_promoted_on_request():
    store = applied(make_store(), steps("new", 2))
    assert store.promote("nobody") is False
    assert store.promote("u1") is False  # no event, and active in the bundle
    assert store.promote("new") is True
    expected = promoted_by_hand(model(), items_after("new", steps("new", 2)), 0)
    np.testing.assert_allclose(store.query(["new"])[0], expected, atol=1e-5)


def test_event_older_than_the_base_of_a_promoted_user_is_in_its_vector():
    which = model()
    events = steps("new", 10)
    store = applied(make_store(which), events[:1] + events[2:])
    store.review()
    store.apply(events[1:2], NOW)
    expected = promoted_by_hand(which, items_after("new", events), BASE)  # the number of events in it stays
    np.testing.assert_allclose(store.query(["new"])[0], expected, atol=1e-5)


def test_event_after_the_base_of_a_promoted_user_leaves_its_vector():
    which = model()
    events = steps("new", 10)
    store = applied(make_store(which), events[:8])
    store.review()
    own = store._tables["one"].promoted[store.log.number("new")]
    applied(store, [events[9], events[8]], 1)
    store.query(["new"])
    assert store._tables["one"].promoted[store.log.number("new")] is own
    expected = promoted_by_hand(which, items_after("new", events), BASE)
    np.testing.assert_allclose(store.query(["new"])[0], expected, atol=1e-5)


def test_demoted_user_has_the_state_of_one_who_was_never_promoted():
    store = applied(make_store(), steps("new", 8))
    before = bits(store, ["new"])
    store.review()
    assert bits(store, ["new"]) != before
    table = store._tables["one"]
    table.demote(store.log.number("new"))
    assert bits(store, ["new"]) == before
    assert store.review().promoted == 1  # it still has enough events


def test_promoted_user_with_too_few_events_is_demoted():
    """Spec 2.3: below 0.9 times the threshold, which is 3."""
    store = applied(make_store(), steps("new", 2))
    before = bits(store, ["new"])
    store.promote("new")
    report = store.review()
    assert (report.promoted, report.demoted) == (0, 1)
    assert bits(store, ["new"]) == before


def test_forgotten_user_loses_the_vector():
    store = applied(make_store(), steps("new", 8))
    store.review()
    store.forget("new")
    assert store.report(NOW).promoted == 0
    assert not store._tables["one"].promoted
    assert store.review().promoted == 0


@pytest.mark.parametrize("sizes", [{"threshold": -1}, {"all_own": True}, {"n_active": 0}, {"prior": 0.0}])
def test_models_without_a_threshold_promote_nobody(sizes):
    which = model(**sizes)
    store = applied(make_store(which), steps("new", 30))
    assert which.promotion() is None
    assert store.review().promoted == 0
    assert store.promote("new") is False
