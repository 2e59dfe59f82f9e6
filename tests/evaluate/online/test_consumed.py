import numpy as np
import pytest
import torch
from hypothesis import given, settings

from shortlist.evaluate.online import OnlineTest
from shortlist.evaluate.online.consumed import Consumed, first_positions
from tests.data.logs import logs


@settings(max_examples=60, deadline=None)
@given(logs())
def test_first_positions_are_those_of_the_same_user_and_item(events):
    keys = list(zip(events.users.tolist(), events.items.tolist(), strict=True))
    assert first_positions(events).tolist() == [keys.index(key) for key in keys]


@pytest.mark.parametrize("block", [False, True])
@settings(max_examples=60, deadline=None)
@given(events=logs())
def test_consumed_items_are_the_distinct_items_of_the_history(block, events):
    test = OnlineTest(events, np.arange(0, len(events), 2), events.lengths, block=block)
    consumed = Consumed.before(test)
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(test)))
    place, items = consumed.of(rows)
    for number, row in enumerate(rows.tolist()):
        history = test.events.items[test.starts[row] : test.before[row]]
        own = items[place == number].tolist()
        assert sorted(own) == np.unique(history).tolist()
        assert int(consumed.counts[row]) == len(own)
        assert bool(consumed.repeated[row]) == (test.targets[row] in history)
    assert place.tolist() == sorted(place.tolist())
    assert consumed.to(torch.device("cpu")) is consumed
