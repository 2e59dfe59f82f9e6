import numpy as np
import pytest
import torch

from shortlist.models.collaborative.lightgcn import LightGCN, LightGCNConfig
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.models.lightgcn import graph_of
from shortlist.train.models.pairs import Pairs
from shortlist.train.registry import make_trainer
from tests.train.logs import log, tastes

CPU = torch.device("cpu")
TINY = make_trainer("lightgcn", width=8, layers=2, epochs=20, batch_size=64, learning_rate=0.02, device="cpu")


@pytest.fixture
def few():
    """User 2 has no events, item 4 has none, and user 0 interacted with item 1 twice."""
    return log([0, 1, 1], [1, 2, 3], [], [3], n_items=5)


def dense_of(events):
    """D^-1/2 A D^-1/2 over users, then items."""
    matrix = events.matrix().toarray().astype(np.float64)
    n_users, n_items = matrix.shape
    whole = np.block([[np.zeros((n_users, n_users)), matrix], [matrix.T, np.zeros((n_items, n_items))]])
    root = 1 / np.sqrt(np.maximum(whole.sum(1), 1))
    return whole * root[:, None] * root[None, :]


def test_graph_is_symmetric_and_weighs_edges_by_both_degrees(few):
    graph = graph_of(few.matrix(), CPU).to_dense()
    assert torch.equal(graph, graph.T)
    assert np.allclose(graph.numpy(), dense_of(few), atol=1e-7)
    random = np.random.default_rng(0)
    many = log(*(random.integers(0, 30, length) for length in random.integers(0, 15, 20)), n_items=30)
    assert np.allclose(graph_of(many.matrix(), CPU).to_dense().numpy(), dense_of(many), atol=1e-7)


def test_loss_equals_bpr_on_vectors_propagated_by_hand(few):
    trainer = TINY.with_settings(reg=0.1)
    torch.manual_seed(0)
    model, pairs = trainer.begin(few, None), Pairs.of(few, 0.0, CPU)
    first = torch.cat([model.user_embedding.weight, model.items.weight]).detach().double()
    graph = torch.from_numpy(dense_of(few))
    mean = (first + graph @ first + graph @ graph @ first) / 3
    torch.manual_seed(3)
    sampled, valid = pairs.negatives(pairs.users, 1)
    rows = pairs.users, 4 + pairs.items, 4 + sampled[:, 0]
    user, positive, negative = (mean[row] for row in rows)
    losses = bpr_loss((user * positive).sum(1), (user * negative).sum(1)) * valid[:, 0]
    penalty = sum(first[row].square().sum(1).mean() for row in rows)
    torch.manual_seed(3)
    loss = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert loss.item() == pytest.approx((losses.mean() + 0.05 * penalty).item(), rel=1e-5)


@pytest.mark.parametrize("user_embeddings", [True, False])
def test_it_learns_two_groups_of_users(user_embeddings):
    model = TINY.with_settings(user_embeddings=user_embeddings).learn(tastes())
    assert isinstance(model, LightGCN)
    assert model.config == LightGCNConfig(20, n_users=40, width=8, layers=2)
    with torch.no_grad():
        best = model.scores(torch.tensor([[2, 4], [13, 17]])).topk(7).indices  # new users
    assert (best[0] < 10).all()
    assert (best[1] >= 10).all()


def test_without_user_embeddings_a_user_vector_comes_from_the_history():
    model = TINY.with_settings(user_embeddings=False, epochs=3).learn(tastes())
    assert (model.user_embedding.weight == 0).all()
    history = torch.tensor([[1, 2]])
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([0])), model.users(history, torch.tensor([-1])))


def test_user_of_the_training_data_has_the_propagated_vector():
    events = tastes()
    model = TINY.with_settings(epochs=3).learn(events)
    with torch.no_grad():
        propagated = torch.stack(model.propagate()).mean(0)
        history = torch.from_numpy(events.items.reshape(40, 6).astype(np.int64))
        assert torch.allclose(model.users(history, torch.arange(40)), propagated[:40], atol=1e-5)
        assert torch.allclose(model.vectors(), propagated[40:], atol=1e-6)
