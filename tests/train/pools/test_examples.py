"""Examples of a mixture from a log."""

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.train.pools.examples import (
    held_out_requests,
    item_factors,
    training_requests,
    with_negatives,
)


def log(seed: int = 0) -> Interactions:
    random = np.random.default_rng(seed)
    return Interactions.of(random.integers(0, 30, 400), random.integers(0, 40, 400), n_users=31, n_items=40)


def test_item_factors_are_those_of_a_full_decomposition():
    events = log()
    dense = events.matrix().toarray().astype(np.float64)
    _, values, right = np.linalg.svd(dense)
    factors = item_factors(events, 5, seed=0).double().numpy()
    expected = (right[:5] * np.sqrt(values[:5])[:, None]).T
    assert np.allclose(np.abs(factors), np.abs(expected), atol=1e-2)
    assert np.array_equal(factors, item_factors(events, 5, seed=0).double().numpy())


def test_factors_beyond_the_rank_are_0():
    events = Interactions.of(np.array([0, 0, 1]), np.array([0, 1, 1]), n_items=6)
    factors = item_factors(events, 8, seed=0)
    assert factors.shape == (6, 8)
    assert not bool(factors[:, 2:].any())
    assert bool(factors.isfinite().all())


def test_a_request_is_the_mean_of_the_items_before_its_target():
    events, random = log(), np.random.default_rng(1)
    factors = item_factors(events, 4, seed=0)
    requests = training_requests(events, factors, 3, 10_000, random)
    assert len(requests) == int((events.lengths - 1).clip(min=0).sum())
    row = 17
    user = int(requests.users[row])
    own = events.items[events.of_user(user)]
    places = [at for at in range(1, len(own)) if own[at] == int(requests.targets[row])]
    means = [factors[torch.from_numpy(own[max(at - 3, 0) : at].astype(np.int64))].mean(0) for at in places]
    assert any(torch.allclose(requests.means[row], mean, atol=1e-5) for mean in means)
    assert len(training_requests(events, factors, 3, 50, random)) == 50


def test_negatives_are_random_items_that_the_user_has_no_event_with():
    events, random = log(), np.random.default_rng(2)
    factors = item_factors(events, 4, seed=0)
    requests = training_requests(events, factors, 5, 10_000, random)
    triples = with_negatives(requests, requests.means, events, 4, random)
    taken = events.matrix().toarray() > 0
    users = requests.users[triples.rows]
    negative = triples.rewards == 0
    assert not taken[users[negative], triples.items[negative]].any()
    assert taken[users[~negative], triples.items[~negative]].all()
    assert int((~negative).sum()) == len(requests)
    assert abs(float(triples.rewards.mean()) - 1 / 5) < 0.01


def test_a_user_with_all_items_has_no_negatives():
    events = Interactions.of(np.zeros(6, np.int64), np.arange(6), n_items=6)
    random = np.random.default_rng(0)
    requests = training_requests(events, item_factors(events, 2, seed=0), 3, 100, random)
    triples = with_negatives(requests, requests.means, events, 3, random)
    assert bool((triples.rewards == 1).all())


def test_held_out_requests_have_a_row_for_each_relevant_item(world):
    split = world.split()
    factors = item_factors(split.train, 4, seed=0)
    requests = held_out_requests(split.valid, factors, 20, 10_000, np.random.default_rng(0))
    assert len(requests) == int((split.valid.relevant() >= 0).sum())
    assert bool(requests.known.all())


def test_without_events_there_are_no_requests():
    events = Interactions.of(np.zeros(0, np.int64), np.zeros(0, np.int64), n_users=2, n_items=3)
    factors = item_factors(events, 2, seed=0)
    assert not bool(factors.any())
    assert len(training_requests(events, factors, 3, 10, np.random.default_rng(0))) == 0
