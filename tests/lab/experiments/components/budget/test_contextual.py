"""Splits that read features of the request, on users of two kinds with a nominator for each."""

import pytest
import torch

from shortlist.data import Candidates, Interactions, Query
from shortlist.lab.experiments.components.budget.contextual import (
    UserFeatures,
    cluster_split,
    gate_split,
)
from shortlist.train.context import RequestBatch

NAMES = ("left", "right")
USERS, LENGTH, LISTED = 60, 6, 20


def batch_of(kinds):
    """Users of kind 0 have items below 20, and their targets are in the list of `left`; kind 1 the other way round."""
    generator = torch.Generator().manual_seed(0)
    history = torch.randint(0, 20, (len(kinds), LENGTH), generator=generator) + 20 * kinds[:, None]
    items = torch.arange(2 * LISTED).expand(len(kinds), -1)
    place = torch.arange(LISTED).float()
    none = torch.full((LISTED,), torch.nan)
    ranks = {"left.rank": torch.cat([place, none]), "right.rank": torch.cat([none, place])}
    columns = {name: one.expand(len(kinds), -1) for name, one in ranks.items()}
    found = Candidates.of(items, -items.float(), columns)
    targets = torch.stack([kinds * LISTED + 9, kinds * LISTED + 4], dim=1)
    rows = torch.arange(len(kinds))
    return RequestBatch(Query(rows, history, rows, rows), found, targets)


@pytest.fixture(scope="module")
def batches():
    return [batch_of(torch.arange(USERS) % 2)]


@pytest.fixture(scope="module")
def features(batches):
    history = batches[0].query.history
    users = torch.arange(USERS).repeat_interleave(LENGTH)
    events = Interactions.of(users.numpy(), history.flatten().numpy(), n_users=USERS, n_items=40)
    return UserFeatures.of(events, batches, seed=0)


def recall_of(split, batch):
    kept = split(batch.query, batch.found)
    hits = (kept.items[:, :, None] == batch.targets[:, None]) & kept.valid[:, :, None]
    return hits.any(1).float().mean(1)


@pytest.mark.parametrize("make", [cluster_split, gate_split])
def test_a_request_gets_the_nominator_of_its_kind(make, batches, features):
    split = make(batches, features, NAMES, budget=20, seed=0)
    assert recall_of(split, batches[0]).mean() > 0.9
    rates = split.rates(batches[0].query)
    left = rates[:, 0] > rates[:, 1]
    assert (left == (torch.arange(USERS) % 2 == 0)).float().mean() > 0.9


def test_a_gate_that_learns_nothing_keeps_the_learned_limits(batches, features):
    same = [batch_of(torch.zeros(USERS, dtype=torch.int64))]
    flat = UserFeatures(torch.zeros_like(features.factors), features.mean, features.deviation)
    split = gate_split(same, flat, NAMES, budget=10, seed=0, learned=(7, 3))
    assert torch.allclose(split.rates(same[0].query), torch.tensor([[7.0, 3.0]]), rtol=1e-3)


def test_nominators_of_the_same_target_share_it(batches, features):
    batch = batches[0]
    both = {name: torch.arange(2 * LISTED).float().expand(USERS, -1) for name in ("left.rank", "right.rank")}
    found = Candidates.of(batch.found.items, batch.found.scores, both)
    rates = gate_split([batch.with_found(found)], features, NAMES, budget=10, seed=0).rates(batch.query)
    assert torch.allclose(rates, torch.full_like(rates, 5.0), atol=1e-3)
