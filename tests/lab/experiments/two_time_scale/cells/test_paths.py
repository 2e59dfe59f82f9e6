"""Step sizes of states."""

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.lab.experiments.two_time_scale.cells.paths import step_paths
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig


@pytest.fixture(scope="module")
def events():
    rng = np.random.default_rng(0)
    return Interactions.of(np.repeat(np.arange(6), 12), rng.integers(0, 9, 72), n_users=6, n_items=9)


@pytest.fixture(scope="module")
def model():
    """Users 0 to 2 are active; 4 events are in their base."""
    torch.manual_seed(0)
    config = TwoTimeScaleConfig(n_items=9, n_users=6, n_active=3, width=4, readout="plain")
    model = TwoTimeScale(config)
    with torch.no_grad():
        model.items.normal_()
        model.own.normal_(std=0.5)
        model.own_row[:3] = torch.arange(3)
        model.base.fill_(4)
    return model.eval()


def test_steps_equal_those_of_a_loop_over_users(model, events):
    found = step_paths(model, events)
    assert found["active"]["k"] == [1, 2, 3, 5]  # 8 events after the base
    assert found["inactive"]["k"] == [1, 2, 3, 5, 10]
    assert found["active"]["users"] == [3] * 4
    norms, changes = [], []
    for user in range(3):
        one, two = events.items[events.starts[user] + 4 :][:2].astype(
            np.int64
        )  # events 1 and 2 after the base
        row = torch.tensor([user])
        with torch.no_grad():
            before = model.step(model.starts(row), torch.tensor([one]), row)
            after = model.step(before, torch.tensor([two]), row)
            chances = [(state @ model.items.T).softmax(1) for state in (before, after)]
        norms.append(float((after - before).norm()))
        changes.append(float((chances[1] - chances[0]).abs().sum()) / 2)
    assert found["active"]["norm"][1] == pytest.approx(np.mean(norms), rel=1e-4)
    assert found["active"]["total variation"][1] == pytest.approx(np.mean(changes), rel=1e-4)


def test_active_users_can_be_followed_as_new_ones(model, events):
    found = step_paths(model, events, as_new=True)
    assert set(found) == {"active, as new"}
    assert found["active, as new"]["k"] == [1, 2, 3, 5, 10]  # from their first event on
