import math

import numpy as np
import pytest
import torch

from shortlist.state.table import losses
from shortlist.state.table.losses import NextEventLosses


def test_mean_loss_is_that_of_a_softmax_by_group():
    items = torch.eye(3)
    found = NextEventLosses(items)
    assert math.isnan(found.mean(False))
    vectors, rows = torch.tensor([[0.0, 0, 0], [2.0, 0, 0], [5.0, 0, 0]]), np.array([1, 0, -1])
    found.add(vectors, rows, np.array([False, True, True]))  # the item of the last event is unknown
    assert found.mean(False) == pytest.approx(math.log(3))
    assert found.mean(True) == pytest.approx(math.log(math.exp(2) + 2) - 2)


def test_one_of_every_few_events_is_measured_in_any_batches(monkeypatch):
    monkeypatch.setattr(losses, "CELLS", 4)
    found = NextEventLosses(torch.zeros(10, 2))
    assert found.every == 3
    taken, offered = [], 0
    for size in (1, 1, 5, 0, 2, 6):
        taken += (offered + found.sample(size)).tolist()
        offered += size
    assert taken == [0, 3, 6, 9, 12]


def test_old_events_fade(monkeypatch):
    monkeypatch.setattr(losses, "MEMORY", 10)
    found = NextEventLosses(torch.eye(2))
    for value, count in ((0.0, 50), (9.0, 100)):
        rows = np.zeros(count, np.int64)
        found.add(torch.tensor([[value, 0.0]]).expand(count, 2), rows, rows > 0)
    assert found.mean(False) < 0.01
