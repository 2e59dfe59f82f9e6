from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.models.collaborative.lightgcn import LightGCN, LightGCNConfig
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.models.lightgcn import LightGCNTrainer, graph_of
from shortlist.train.models.pairs import Pairs
from tests.train.logs import log, tastes

CPU = torch.device("cpu")
TINY = LightGCNTrainer(width=8, layers=2, epochs=20, batch_size=64, learning_rate=0.02, device="cpu")


@pytest.fixture
def few():
    """User 2 met nothing, nobody met item 4, and user 0 met item 1 twice."""
    return log([0, 1, 1], [1, 2, 3], [], [3], n_items=5)


def dense_of(events):
    """D^-1/2 A D^-1/2 over users, then items."""
    met = events.matrix().toarray().astype(np.float64)
    whole = np.block([[np.zeros((len(met), len(met))), met], [met.T, np.zeros((met.shape[1], met.shape[1]))]])
    root = 1 / np.sqrt(np.maximum(whole.sum(1), 1))
    return whole * root[:, None] * root[None, :]


def test_the_graph_is_symmetric_and_weighs_edges_by_both_degrees(few):
    graph = graph_of(few.matrix(), CPU).to_dense()
    assert torch.equal(graph, graph.T)
    assert np.allclose(graph.numpy(), dense_of(few), atol=1e-7)
    random = np.random.default_rng(0)
    many = log(*(random.integers(0, 30, length) for length in random.integers(0, 15, 20)), n_items=30)
    assert np.allclose(graph_of(many.matrix(), CPU).to_dense().numpy(), dense_of(many), atol=1e-7)


def test_the_loss_is_that_of_vectors_spread_by_hand(few):
    trainer = replace(TINY, reg=0.1)
    torch.manual_seed(0)
    model, pairs = trainer.begin(few, CPU), Pairs.of(few, 0.0, CPU)
    first = torch.cat([model.people.weight, model.items.weight]).detach().double()
    graph = torch.from_numpy(dense_of(few))
    whole = (first + graph @ first + graph @ graph @ first) / 3
    torch.manual_seed(3)
    drawn, unmet = pairs.unmet(pairs.users, 1)
    rows = pairs.users, 4 + pairs.items, 4 + drawn[:, 0]
    people, own, other = (whole[row] for row in rows)
    losses = bpr_loss((people * own).sum(1), (people * other).sum(1)) * unmet[:, 0]
    small = sum(first[row].square().sum(1).mean() for row in rows)
    torch.manual_seed(3)
    found = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert found.item() == pytest.approx((losses.mean() + 0.05 * small).item(), rel=1e-5)


@pytest.mark.parametrize("own", [True, False])
def test_it_learns_whose_taste_is_whose(own):
    model = replace(TINY, own=own).learn(tastes())
    assert isinstance(model, LightGCN)
    assert model.config == LightGCNConfig(20, n_users=40, width=8, layers=2)
    with torch.no_grad():
        best = model.scores(torch.tensor([[2, 4], [13, 17]])).topk(7).indices  # newcomers
    assert (best[0] < 10).all()
    assert (best[1] >= 10).all()


def test_without_vectors_of_their_own_users_are_what_their_history_says():
    model = replace(TINY, own=False, epochs=3).learn(tastes())
    assert (model.people.weight == 0).all()
    history = torch.tensor([[1, 2]])
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([0])), model.users(history, torch.tensor([-1])))


def test_who_was_there_in_training_is_what_the_graph_says():
    """What is folded in from a training history is exactly the vector that was spread."""
    events = tastes()
    model = replace(TINY, epochs=3).learn(events)
    with torch.no_grad():
        spread = torch.stack(model.spread()).mean(0)
        history = torch.from_numpy(events.items.reshape(40, 6).astype(np.int64))
        assert torch.allclose(model.users(history, torch.arange(40)), spread[:40], atol=1e-5)
        assert torch.allclose(model.vectors(), spread[40:], atol=1e-6)
