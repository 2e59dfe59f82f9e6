import dataclasses

import numpy as np
import pytest
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.evaluate.protocol.baselines import LAST, POPULARITY, WINDOW, baselines, in_window
from shortlist.nominate import ModelNominator
from shortlist.train.context import DAY
from shortlist.train.models.counting.last_click import LastClickTrainer

PROTOCOLS = ("half-history", "global-time", "leave-last-out")


def exhaustive(model, held_out, k):
    """The ranking of the whole catalogue: the oracle."""
    query = held_out.query(width=int(held_out.history_lengths().max()))
    return ModelNominator(model, exclude_seen=True, limit=k).nominate(query).items


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("k", [20, 150])
def test_slates_equal_rankings_of_the_whole_catalogue(world, protocol, k):
    split = world.split(protocol=protocol)
    found = baselines(split.test, split.train, k)
    train = split.train
    assert torch.equal(found[LAST], exhaustive(LastClickTrainer().learn(train), split.test, k))
    recent = np.bincount(train.items[train.times > train.times.max() - 30 * DAY], minlength=train.n_items)
    by_count = lambda item: (-recent[item], -train.popularity[item], item)  # noqa: E731
    assert found[WINDOW].tolist() == sorted_slates(by_count, split.test, train.n_items, k)
    by_total = lambda item: (-train.popularity[item], item)  # noqa: E731
    assert found[POPULARITY].tolist() == sorted_slates(by_total, split.test, train.n_items, k)


def sorted_slates(key, held_out, n_items, k):
    """All items sorted by a key, those of the history left out."""
    order = sorted(range(n_items), key=key)
    slates = []
    for start, cut in zip(held_out.starts, held_out.cuts, strict=True):
        history = set(held_out.events.items[start:cut].tolist())
        slate = [item for item in order if item not in history][:k]
        slates.append(slate + [-1] * (k - len(slate)))
    return slates


def test_window_without_times_is_the_last_tenth_of_the_events():
    events = Interactions.of(np.zeros(40, int), np.arange(40) % 7, np.arange(40) // 2)
    assert np.flatnonzero(in_window(events, "order")).tolist() == [36, 37, 38, 39]
    assert in_window(events.where(np.zeros(40, bool)), "order").tolist() == []


def test_items_of_the_history_are_not_returned(world):
    split = world.split()
    for slates in baselines(split.test, split.train, 20).values():
        for row, (start, cut) in enumerate(zip(split.test.starts, split.test.cuts, strict=True)):
            assert not set(slates[row].tolist()) & set(world.events.items[start:cut].tolist())


def test_events_after_the_training_part_are_not_counted(world):
    """Items of test events are replaced: no baseline may change."""
    split = world.split(protocol="global-time")
    first = int(split.events.times[split.test.cuts].min())
    late = world.events.times >= first
    other = dataclasses.replace(world.events, items=np.where(late, 0, world.events.items).astype(np.int32))
    again = split.__class__(other, split.in_train, split.valid, split.test, split.settings)
    before, after = (baselines(split.test, one.train, 20) for one in (split, again))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert split.train.times.max() < first


def test_small_catalogue_leaves_empty_places():
    events = Interactions.of(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    held_out = HeldOut(events, np.array([0, 2]), np.array([1, 3]), np.array([2, 4]))
    for slates in baselines(held_out, events, 5, "order").values():
        assert slates.shape == (2, 5)
        assert sorted(slates[0].tolist()) == [-1, -1, -1, 1, 2]


def test_user_without_history_gets_the_most_popular_items():
    events = Interactions.of(np.array([0, 0, 0, 1]), np.array([2, 2, 1, 0]))
    nobody = HeldOut(events, np.array([3]), np.array([3]), np.array([4]))
    found = baselines(nobody, events, 3)
    assert found[LAST].tolist() == found[POPULARITY].tolist() == [[2, 0, 1]]
