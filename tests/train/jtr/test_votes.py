"""Leaf votes: every event counts once for each leaf that its history reaches."""

from dataclasses import replace

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.index.jtr import grow, reached
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.train.jtr.votes import leaf_votes, sequence_batches

LENGTHS = [1, 5, 0, 9, 3]


def events_of(n_items=30):
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(5), LENGTHS)
    return Interactions.of(users, random.integers(0, n_items, len(users)), n_users=5, n_items=n_items)


def encoder_of(n_items=30, max_history=12):
    torch.manual_seed(0)
    return SASRec(SASRecConfig(n_items, max_history, 8, 1, 2)).eval()


def test_batches_hold_every_event_once():
    events = events_of()
    for length in (4, 50):
        batches = [piece for piece, _ in sequence_batches(events, length, 2, np.random.default_rng(1))]
        assert max(piece.shape[1] for piece in batches) <= length
        together = torch.cat([piece[piece >= 0] for piece in batches])
        assert sorted(together.tolist()) == sorted(events.items.tolist())


def test_votes_are_the_product_of_targets_and_reached_leaves():
    events, encoder = events_of(), encoder_of()
    index = grow(encoder.vectors(), 3, 5)
    votes = leaf_votes(encoder, index, events, beam=2, batch_size=2).toarray()
    leaves = index.tree.leaves.tolist()
    expected = np.zeros((30, len(leaves)))
    for at, item in enumerate(events.items.tolist()):
        before = events.items[events.starts[events.users[at]] : at].astype(np.int64)
        with torch.no_grad():
            query = encoder.users(torch.from_numpy(before)[None])
        for leaf in reached(index, query, 2)[0].tolist():
            expected[item, leaves.index(leaf)] += 1
    assert votes.sum() == 2 * len(events)
    np.testing.assert_array_equal(votes, expected)


def test_event_votes_with_its_weight():
    events, encoder = events_of(), encoder_of()
    index = grow(encoder.vectors(), 3, 5)
    votes = leaf_votes(encoder, index, events, beam=2, batch_size=2).toarray()
    weights = 1.0 + events.items % 3  # the same for all events of an item
    weighted = leaf_votes(encoder, index, replace(events, weights=weights.astype(np.float32)), 2, 2).toarray()
    expected = votes * (1.0 + np.arange(30)[:, None] % 3) / weights.mean()
    np.testing.assert_allclose(weighted, expected, rtol=1e-5)
