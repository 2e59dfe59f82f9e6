"""New own vectors as events arrive."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.evaluate.online import ranks
from shortlist.lab.experiments.two_time_scale.cells.refit import (
    first_level,
    levels_of,
    refitted,
    refitted_ranks,
)
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, ONE_GRU, SYSTEMS
from shortlist.lab.experiments.two_time_scale.cells.train_cell import train_cell
from shortlist.train.two_time_scale.personal import ItemSpace, fitted


@pytest.fixture(scope="module")
def model(place):
    return train_cell(place, SYSTEMS[ANCHORED], 0, None, None, "cpu").model


def test_a_user_is_promoted_at_eleven_tenths_of_the_threshold(model):
    assert first_level(model.promotion()) == 22
    assert first_level(replace(model.promotion(), threshold=3)) == 4


def test_levels_double_and_a_trained_vector_stays_until_it_is_older(model, data):
    test = data.test
    levels = levels_of(model, test, 22)
    before, counts = test.event_numbers - 1, data.split.train_counts[test.users]
    new = counts <= 20
    np.testing.assert_array_equal(levels[new] >= 0, before[new] >= 22)
    assert set(levels[new & (before >= 44) & (before < 88)].tolist()) <= {1}
    old = counts >= 44
    assert (levels[old & (before < 88)] == -1).all()


def test_ranks_before_a_promotion_do_not_change(model, data):
    found, plain = refitted_ranks(model, data.test), ranks(model, data.test, 0)
    kept = levels_of(model, data.test, 22) < 0
    np.testing.assert_allclose(found.raw[kept], plain.raw[kept])
    assert (found.raw[~kept] != plain.raw[~kept]).any()


def test_a_promoted_user_has_the_vector_of_his_first_events_and_replays_the_later_ones(model, data):
    """One event by hand: fold-in of 2 events (22 without the last 20), then a step for each later one."""
    rule, test = model.promotion(), data.test
    row = int(np.flatnonzero((levels_of(model, test, 22) == 0) & (test.train_counts[test.users] <= 20))[0])
    user, start = int(test.users[row]), int(test.starts[row])
    fresh = refitted(model, rule, test.events, np.array([user]), 22)
    space = ItemSpace(model.items, rule.mean, rule.prior)
    own = fitted(test.events, np.array([start]), np.array([start + 2]), space)
    torch.testing.assert_close(fresh.own, own)
    who, state = torch.tensor([user]), fresh.starts(torch.tensor([user]))
    with torch.no_grad():
        for item in test.events.items[start + 2 : test.positions[row]].tolist():
            state = fresh.step(state, torch.tensor([item]), who)
        scores = (fresh.readout(state, torch.tensor([-1]), who) @ fresh.vectors().T)[0]
    own_score = scores[test.targets[row]]
    rank = 1 + int((scores > own_score + 1e-5).sum())
    worst = 1 + int((scores > own_score - 1e-5).sum())
    assert rank <= refitted_ranks(model, test).raw[row] <= worst


def test_drawn_ranks_are_of_the_same_events(model, data):
    found = refitted_ranks(model, data.test, 20, 100)
    plain = ranks(model, data.test, 20, sampled_events=100)
    np.testing.assert_array_equal(np.isnan(found.sampled), np.isnan(plain.sampled))


def test_a_model_that_promotes_nobody_is_ranked_as_it_is(place, data):
    single = train_cell(place, SYSTEMS[ONE_GRU], 0, None, None, "cpu").model
    np.testing.assert_allclose(refitted_ranks(single, data.test).raw, ranks(single, data.test, 0).raw)
