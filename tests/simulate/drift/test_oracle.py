"""Oracles of drifting worlds."""

import numpy as np
import pytest
import torch

from shortlist.data.time_split import time_split
from shortlist.errors import DataError
from shortlist.evaluate.online import OnlineTest, TrainPopularity, ranks
from shortlist.simulate.drift import SIZES, DriftSettings, Oracle, make_drift_world


@pytest.fixture(scope="module")
def world():
    return make_drift_world(DriftSettings(users=400, items=100), 0)


@pytest.fixture(scope="module")
def test_events(world):
    return OnlineTest.of(time_split(world.events))


def test_who_knows_more_predicts_better(world, test_events):
    """Drift, then taste, then counts of training events."""
    models = [Oracle(world), Oracle(world, "static"), TrainPopularity(time_split(world.events).train)]
    mrr = [(1 / ranks(model, test_events, n_neg=0).raw).mean() for model in models]
    assert mrr[0] > mrr[1] + 0.03
    assert mrr[1] > mrr[2] + 0.03


def test_scores_are_the_logits_of_the_world(world, test_events):
    rows = np.array([0, 5, 17])
    user, at = test_events.users[rows], test_events.positions[rows]
    expected = (world.long[user] + world.short[at]) @ world.item_vectors.T + world.bias
    found = Oracle(world).scores_at(test_events, rows)
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-5, atol=1e-5)


def test_the_mean_user_gives_everyone_the_same_order(world, test_events):
    found = Oracle(world, "mean").scores_at(test_events, np.arange(4))
    torch.testing.assert_close(found[0], found[3])


def test_an_oracle_of_another_world_or_kind_is_refused(world, test_events):
    with pytest.raises(DataError, match="events of its world"):
        Oracle(make_drift_world(SIZES["tiny"], 0)).scores_at(test_events, np.arange(3))
    with pytest.raises(DataError, match="expected a kind of dynamic, static, mean, got 'best'"):
        Oracle(world, "best")
