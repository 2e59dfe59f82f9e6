"""Items that a user interacts with later, against a slow search through the log."""

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.lab.experiments.two_stage.later_items import LaterItems


def log() -> Interactions:
    generator = np.random.default_rng(0)
    users, items = generator.integers(0, 6, 80), generator.integers(0, 9, 80)
    return Interactions.of(users, items, np.arange(80), n_users=6, n_items=9)


def test_later_items_are_those_of_the_same_user_from_the_position_on():
    events = log()
    later = LaterItems.of(events)
    ends = torch.arange(len(events))
    everything = torch.arange(9).expand(len(events), -1)
    found = later.among(everything, ends)
    for end in range(len(events)):
        same_user = events.users[end:] == events.users[end]
        expected = set(events.items[end:][same_user].tolist())
        assert set(torch.nonzero(found[end])[:, 0].tolist()) == expected


def test_padding_is_no_later_item():
    later = LaterItems.of(log())
    assert not bool(later.among(torch.tensor([[-1, -1]]), torch.tensor([10])).any())
