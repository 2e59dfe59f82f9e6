"""LightGCN: what is settled answers as the whole graph would, for those who were there and for those who were not."""

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.testing.models import events_of
from shortlist.train.models.lightgcn import LightGCNTrainer


@pytest.fixture(scope="module")
def events() -> Interactions:
    """Seven users, of whom the last two did nothing; nobody met the last item; there are repeats."""
    random = np.random.default_rng(0)
    users, items = np.repeat(np.arange(5), [9, 1, 6, 4, 12]), random.integers(0, 10, 32)
    return events_of(users, items, n_users=7, n_items=11)


@pytest.fixture(scope="module", params=[1, 3], ids=["one hop", "three hops"])
def model(request, events) -> LightGCN:
    torch.manual_seed(0)
    trainer = LightGCNTrainer(width=4, layers=request.param, device="cpu")
    made = trainer.begin(events, torch.device("cpu"))
    for table in (made.user_embedding, made.items):
        torch.nn.init.normal_(table.weight)
    trainer.finish(made, events)
    return made.eval()


def propagate(model, events):
    """The mean over hops by the dense matrix of the graph, in float64: users, then items."""
    met = np.zeros((7, 11))
    met[events.users, events.items] = 1
    graph = np.block([[np.zeros((7, 7)), met], [met.T, np.zeros((11, 11))]])
    degrees = np.maximum(graph.sum(0), 1)
    graph = graph / np.sqrt(np.outer(degrees, degrees))
    x = torch.cat([model.user_embedding.weight, model.items.weight]).detach().double().numpy()
    layers = [np.linalg.matrix_power(graph, hop) @ x for hop in range(model.config.layers + 1)]
    return torch.from_numpy(np.mean(layers, axis=0)).float()


def history_of(events, user):
    return torch.from_numpy(events.items[events.of_user(user)].astype(np.int64))[None]


@torch.no_grad()
def test_vectors_travel_as_the_dense_graph_says(model, events):
    assert torch.allclose(torch.stack(model.propagate()).mean(0), propagate(model, events), atol=1e-6)
    assert torch.allclose(model.vectors(), propagate(model, events)[7:], atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("user", range(5))
def test_a_trained_user_with_the_same_history_is_the_users_row_of_the_whole_graph(model, events, user):
    history = history_of(events, user)
    told = model.users(history, torch.tensor([user]))[0]
    assert torch.allclose(told, propagate(model, events)[user], atol=1e-6)


@torch.no_grad()
def test_scores_are_those_of_the_whole_graph(model, events):
    whole = propagate(model, events)
    for user in range(5):
        told = model.scores(history_of(events, user), torch.tensor([user]))[0]
        assert torch.allclose(told, whole[7:] @ whole[user], atol=1e-5)


@torch.no_grad()
def test_what_is_met_twice_is_one_edge(model):
    once, twice = torch.tensor([[-1, -1, 3, 4]]), torch.tensor([[3, 4, 3, 3]])
    assert torch.allclose(model.users(once), model.users(twice), atol=1e-6)
    assert torch.allclose(
        model.users(once, torch.tensor([0])), model.users(twice, torch.tensor([0])), atol=1e-6
    )


@torch.no_grad()
@pytest.mark.parametrize("stranger", [5, 6, 7, 10**12, -1, -7])
def test_a_newcomer_is_what_the_history_says_alone(model, events, stranger):
    history = history_of(events, 2)
    told = model.users(history, torch.tensor([stranger]))
    assert torch.equal(told, model.users(history))
    user_embeddings = model.user_embedding.weight[2] / (model.config.layers + 1)
    assert torch.allclose(told[0], propagate(model, events)[2] - user_embeddings, atol=1e-6)


@torch.no_grad()
def test_who_has_no_history_is_the_usual_user(model, events):
    usual = propagate(model, events)[:5].mean(0)
    for history in ([], [-1, -1], [99]):
        rows = torch.tensor([history], dtype=torch.int64)
        for user in (None, torch.tensor([0]), torch.tensor([-1])):
            assert torch.allclose(model.users(rows, user)[0], usual, atol=1e-6)


def test_the_gradient_of_a_hop_is_that_of_the_dense_matrix(model):
    pull = torch.linspace(-1, 1, 18 * 4).view(18, 4)
    weights = [model.user_embedding.weight, model.items.weight]
    ours = torch.autograd.grad((torch.stack(model.propagate()).mean(0) * pull).sum(), weights)
    x, dense = torch.cat(weights).detach().requires_grad_(), model.graph.to_dense()
    layers = [x]
    for _ in range(model.config.layers):
        layers.append(dense @ layers[-1])
    (oracle,) = torch.autograd.grad((torch.stack(layers).mean(0) * pull).sum(), x)
    assert torch.allclose(torch.cat(ours), oracle, atol=1e-5)


def test_without_vectors_of_their_own_users_are_newcomers(events):
    model = LightGCNTrainer(width=4, epochs=2, user_embeddings=False, device="cpu").learn(events)
    history = history_of(events, 2)
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([2])), model.users(history))
    assert not model.user_embedding.weight.any()
