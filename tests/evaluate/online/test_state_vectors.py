import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import DataError
from shortlist.evaluate.online import OnlineTest, ranks
from shortlist.evaluate.online.state_vectors import state_vectors
from tests.evaluate.online.worlds import ITEMS, THRESHOLD, small_split, state_model

READOUTS = ["plain", "plus", "anchored"]


@torch.no_grad()
def one_at_a_time(model, test):
    """User vectors before every evaluated event: all events of all users, one after the other [n, D]."""
    found = {}
    for user in np.unique(test.users):
        known = torch.tensor([user if test.train_counts[user] else -1])
        own = np.arange(*test.events.of_user(user).indices(len(test.events)))
        state, last, vector, time = model.starts(known), torch.tensor([-1]), None, None
        base = int(model.base_events(known))
        for number, at in enumerate(own):
            if not test.block or test.events.times[at] != time:
                vector, time = model.readout(state, last, known)[0], test.events.times[at]
            found[int(at)] = vector.numpy()
            last = torch.tensor([int(test.events.items[at])])
            if number >= base:
                state = model.step(state, last, known)
    return np.array([found[int(at)] for at in test.positions])


def all_vectors(model, test):
    found = np.full((len(test), model.state_width), np.nan)
    with torch.no_grad():
        for batch in state_vectors(model, test):
            assert np.isnan(found[batch.rows]).all()
            found[batch.rows] = batch.vectors
    return found


@pytest.mark.parametrize("base", ["full", "held"])
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("readout", READOUTS)
def test_29_batches_equal_one_event_at_a_time(readout, block, base):
    """Test 29 of the specification of two time scales, for a state model of each readout."""
    split = small_split()
    model, test = state_model(split, readout, base), OnlineTest.of(split, block=block)
    assert 0 < model.active(torch.from_numpy(test.known_users)).sum() < len(test)
    np.testing.assert_allclose(all_vectors(model, test), one_at_a_time(model, test), atol=1e-5)


@pytest.mark.parametrize("readout", READOUTS)
def test_batches_and_pieces_of_long_histories_change_nothing(readout, monkeypatch):
    split = small_split()
    model, test = state_model(split, readout, "held"), OnlineTest.of(split, block=True)
    expected = one_at_a_time(model, test)
    for cells, steps in ((10, 3), (1, 1), (1000, 4), (64, 50)):
        monkeypatch.setattr(sys.modules[state_vectors.__module__], "CELLS", cells)
        monkeypatch.setattr(sys.modules[state_vectors.__module__], "STEPS", steps)
        np.testing.assert_allclose(all_vectors(model, test), expected, atol=1e-5)


def test_states_equal_the_user_vectors_of_whole_histories():
    split = small_split()
    test = OnlineTest.of(split)
    for readout in READOUTS:
        model = state_model(split, readout, "held")
        with torch.no_grad():
            history = torch.from_numpy(test.histories(np.arange(len(test)), len(test.events)))
            expected = model.users(history, torch.from_numpy(test.known_users))
        np.testing.assert_allclose(all_vectors(model, test), expected, atol=1e-5)


def test_a_model_without_active_users():
    split = small_split()
    model, test = state_model(split, own=False), OnlineTest.of(split)
    np.testing.assert_allclose(all_vectors(model, test), one_at_a_time(model, test), atol=1e-5)


def test_19_the_target_and_later_events_change_no_vector():
    """Test 19 of the specification of two time scales, for evaluation."""
    split = small_split()
    model, test = state_model(split), OnlineTest.of(split)
    before = all_vectors(model, test)
    at = test.positions[len(test) // 2]
    items = split.events.items.copy()
    items[at] = (items[at] + 1) % ITEMS
    after = all_vectors(model, replace(test, events=replace(split.events, items=items)))
    later = (test.users == split.events.users[at]) & (test.positions > at)
    np.testing.assert_allclose(before[~later], after[~later], atol=1e-6)
    assert later.any()
    assert (abs(before[later] - after[later]).max(1) > 1e-4).all()


def test_23_vectors_of_inactive_users_are_not_read():
    """Test 23 of the specification of two time scales, for evaluation: the model holds none, so NaN cannot enter."""
    split = small_split()
    model, test = state_model(split), OnlineTest.of(split)
    assert len(model.own) == (split.train_counts > THRESHOLD).sum()
    expected = ranks(model, test).raw
    with torch.no_grad():
        spare = torch.full((1, model.state_width), torch.nan)
        model.own = torch.cat([model.own, spare])
    assert (ranks(model, test).raw == expected).all()


def test_events_inside_the_base_are_refused():
    split = small_split()
    test = OnlineTest.of(split, "train")
    with pytest.raises(
        DataError, match=r"his vector holds the events up to \d+; evaluate events after those"
    ):
        list(state_vectors(state_model(split), test))
