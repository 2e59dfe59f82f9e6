import dataclasses

import numpy as np
import pytest
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.evaluate.baselines import LAST, POPULARITY, WINDOW, baselines
from shortlist.nominate import ModelNominator
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.popular_window import PopularWindowTrainer

PROTOCOLS = ("half-history", "global-time", "leave-last-out")


def asked(model, cases, k):
    """The model over the whole catalogue: the obvious way."""
    query = cases.query(width=int(cases.history_lengths().max()))
    return ModelNominator(model, fresh=True, limit=k).nominate(query).items


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("k", [20, 150])
def test_few_items_are_looked_at_and_the_answer_is_that_of_the_whole_catalogue(world, protocol, k):
    split = world.split(protocol=protocol)
    found = baselines(split.test, split.train, k)
    assert torch.equal(found[LAST], asked(LastClickTrainer().learn(split.train), split.test, k))
    assert torch.equal(found[WINDOW], asked(PopularWindowTrainer().learn(split.train), split.test, k))
    everything = PopularWindowTrainer(days=0).learn(split.train)
    assert torch.equal(found[POPULARITY], asked(everything, split.test, k))


def test_nothing_that_was_seen_comes_back(world):
    split = world.split()
    for slates in baselines(split.test, split.train, 20).values():
        for row, (start, cut) in enumerate(zip(split.test.starts, split.test.cuts, strict=True)):
            assert not set(slates[row].tolist()) & set(world.events.items[start:cut].tolist())


def test_nothing_after_the_learning_part_is_counted(world):
    """Times and items of the test are replaced by nonsense: no yardstick may change."""
    split = world.split(protocol="global-time")
    first = int(split.events.times[split.test.cuts].min())
    late = world.events.times >= first
    other = dataclasses.replace(world.events, items=np.where(late, 0, world.events.items).astype(np.int32))
    again = split.__class__(other, split.in_train, split.valid, split.test, split.settings)
    told, blind = (baselines(split.test, one.train, 20) for one in (split, again))
    assert all(torch.equal(told[name], blind[name]) for name in told)
    assert split.train.times.max() < first


def test_a_small_catalogue_leaves_empty_places():
    events = Interactions.of(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    cases = HeldOut(events, np.array([0, 2]), np.array([1, 3]), np.array([2, 4]))
    for slates in baselines(cases, events, 5, "order").values():
        assert slates.shape == (2, 5)
        assert sorted(slates[0].tolist()) == [-1, -1, -1, 1, 2]


def test_someone_without_a_history_is_given_what_everybody_takes():
    events = Interactions.of(np.array([0, 0, 0, 1]), np.array([2, 2, 1, 0]))
    nobody = HeldOut(events, np.array([3]), np.array([3]), np.array([4]))
    found = baselines(nobody, events, 3)
    assert found[LAST].tolist() == found[POPULARITY].tolist() == [[2, 0, 1]]
