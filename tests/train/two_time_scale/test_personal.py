from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.models.fold_in import fold_in
from shortlist.train.two_time_scale.personal import ItemSpace, chosen_prior, fitted, held_vectors, space_of
from tests.train.two_time_scale.worlds import tastes

EVENTS = tastes()
torch.manual_seed(0)
SPACE = ItemSpace(torch.randn(EVENTS.n_items, 5), torch.randn(5) / 3, 0.5)
LONG = np.flatnonzero(EVENTS.lengths > 12)
LAST = 4


def changed(events, at):
    """The same log with other items at some positions."""
    items = events.items.copy()
    items[at] = (items[at] + 7) % events.n_items
    return Interactions.of(events.users, items, events.times, n_users=events.n_users, n_items=events.n_items)


def test_last_events_change_no_bit_of_held_vectors():
    """Spec test 20."""
    before = held_vectors(EVENTS, LONG, LAST, SPACE)
    for back in range(1, LAST + 1):
        other = changed(EVENTS, EVENTS.starts[LONG + 1] - back)
        assert torch.equal(held_vectors(other, LONG, LAST, SPACE), before)
    other = changed(EVENTS, EVENTS.starts[LONG + 1] - LAST - 1)
    assert not torch.equal(held_vectors(other, LONG, LAST, SPACE), before)


def test_vectors_of_all_events_read_the_last_ones_too():
    starts, stops = EVENTS.starts[LONG], EVENTS.starts[LONG + 1]
    found = fitted(EVENTS, starts, stops, SPACE)
    assert not torch.equal(fitted(changed(EVENTS, stops - 1), starts, stops, SPACE), found)


def test_vectors_are_those_of_the_events_of_each_range():
    starts, stops = EVENTS.starts[LONG[:2]] + 1, EVENTS.starts[LONG[:2]] + 8
    expected = [
        SPACE.items[torch.tensor(EVENTS.items[a:b].tolist())].sum(0)
        for a, b in zip(starts, stops, strict=True)
    ]
    alone = fold_in(torch.stack(expected), torch.tensor([7, 7]), SPACE.items, SPACE.mean, SPACE.prior)
    torch.testing.assert_close(fitted(EVENTS, starts, stops, SPACE), alone, rtol=1e-4, atol=1e-4)


def test_user_with_no_more_than_the_last_events_has_the_mean():
    short = np.flatnonzero(EVENTS.lengths <= LAST)
    assert len(short)
    assert torch.equal(held_vectors(EVENTS, short, LAST, SPACE), SPACE.mean.expand(len(short), -1))


def test_event_of_weight_two_counts_as_two_events():
    users, items = np.array([0, 0, 0]), np.array([1, 2, 2])
    twice = Interactions.of(users, items, n_users=1, n_items=EVENTS.n_items)
    weights = np.array([1.0, 2.0], np.float32)
    once = Interactions.of(users[:2], items[:2], weights=weights, n_users=1, n_items=EVENTS.n_items)
    scale = float(weights.mean())  # strengths are weights over their mean
    space = replace(SPACE, prior=SPACE.prior / scale)
    torch.testing.assert_close(
        fitted(once, np.array([0]), np.array([2]), space),
        fitted(twice, np.array([0]), np.array([3]), SPACE),
        rtol=1e-3,
        atol=1e-3,
    )


def test_mean_is_that_of_the_vectors_of_users():
    space = space_of(EVENTS, SPACE.items, 0, 0.5)
    vectors = fitted(EVENTS, EVENTS.starts[:-1], EVENTS.starts[1:], space)
    assert float((vectors.mean(0) - space.mean).norm()) < 0.2 * float(vectors.std(0).norm())
    assert space.prior == 0.5


@pytest.mark.parametrize(("spread", "expected"), [(0.05, "strong"), (2.0, "weak")])
def test_chosen_prior_follows_the_spread_of_tastes(spread, expected):
    """Users who differ little have a strong prior."""
    torch.manual_seed(1)
    items, mean = torch.randn(30, 4), torch.zeros(4)
    users = spread * torch.randn(120, 4)
    rows = torch.distributions.Categorical(logits=users @ items.T).sample((40,)).T  # [120, 40]
    owner = np.repeat(np.arange(120), 40)
    events = Interactions.of(owner, rows.reshape(-1).numpy(), n_users=120, n_items=30)
    prior = chosen_prior(events, ItemSpace(items, mean, 1.0), 10, seed=0).prior
    assert (prior > 5) if expected == "strong" else (prior < 1)


def test_few_users_keep_the_given_prior():
    few = EVENTS.where(EVENTS.users < 5)
    assert chosen_prior(few, SPACE, LAST, seed=0) is SPACE


def test_log_without_events_or_items_has_a_space():
    for n_items in (0, 3):
        nothing = Interactions.of(np.zeros(0, int), np.zeros(0, int), n_users=2, n_items=n_items)
        space = space_of(nothing, torch.randn(n_items, 5), 0, 0.5)
        assert bool(space.mean.isfinite().all())
