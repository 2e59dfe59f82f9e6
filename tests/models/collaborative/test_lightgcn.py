"""LightGCN: user vectors from histories equal those of the whole graph, for users of the training data and new ones."""

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.testing.models import events_of
from shortlist.train.registry import make_trainer


@pytest.fixture(scope="module")
def events() -> Interactions:
    """Seven users, the last two without events; the last item has none either; there are repeats."""
    random = np.random.default_rng(0)
    users, items = np.repeat(np.arange(5), [9, 1, 6, 4, 12]), random.integers(0, 10, 32)
    return events_of(users, items, n_users=7, n_items=11)


@pytest.fixture(scope="module", params=[1, 3], ids=["one layer", "three layers"])
def model(request, events) -> LightGCN:
    torch.manual_seed(0)
    trainer = make_trainer("lightgcn", width=4, layers=request.param, device="cpu")
    made = trainer.begin(events, None)
    for table in (made.user_embedding, made.items):
        torch.nn.init.normal_(table.weight)
    trainer.finish(made, events)
    return made.eval()


def dense_vectors(model, events):
    """The mean over layers with the dense matrix of the graph, in float64: users, then items."""
    matrix = np.zeros((7, 11))
    matrix[events.users, events.items] = 1
    graph = np.block([[np.zeros((7, 7)), matrix], [matrix.T, np.zeros((11, 11))]])
    degrees = np.maximum(graph.sum(0), 1)
    graph = graph / np.sqrt(np.outer(degrees, degrees))
    x = torch.cat([model.user_embedding.weight, model.items.weight]).detach().double().numpy()
    layers = [np.linalg.matrix_power(graph, layer) @ x for layer in range(model.config.layers + 1)]
    return torch.from_numpy(np.mean(layers, axis=0)).float()


def history_of(events, user):
    return torch.from_numpy(events.items[events.of_user(user)].astype(np.int64))[None]


@torch.no_grad()
def test_propagation_equals_the_dense_graph(model, events):
    assert torch.allclose(torch.stack(model.propagate()).mean(0), dense_vectors(model, events), atol=1e-6)
    assert torch.allclose(model.vectors(), dense_vectors(model, events)[7:], atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("user", range(5))
def test_user_of_the_training_data_has_the_vector_of_the_whole_graph(model, events, user):
    history = history_of(events, user)
    found = model.users(history, torch.tensor([user]))[0]
    assert torch.allclose(found, dense_vectors(model, events)[user], atol=1e-6)


@torch.no_grad()
def test_scores_equal_those_of_the_whole_graph(model, events):
    whole = dense_vectors(model, events)
    for user in range(5):
        found = model.scores(history_of(events, user), torch.tensor([user]))[0]
        assert torch.allclose(found, whole[7:] @ whole[user], atol=1e-5)


@torch.no_grad()
def test_repeated_item_is_one_edge(model):
    once, twice = torch.tensor([[-1, -1, 3, 4]]), torch.tensor([[3, 4, 3, 3]])
    assert torch.allclose(model.users(once), model.users(twice), atol=1e-6)
    assert torch.allclose(
        model.users(once, torch.tensor([0])), model.users(twice, torch.tensor([0])), atol=1e-6
    )


@torch.no_grad()
@pytest.mark.parametrize("new_user", [5, 6, 7, 10**12, -1, -7])
def test_vector_of_a_new_user_comes_from_the_history_alone(model, events, new_user):
    history = history_of(events, 2)
    found = model.users(history, torch.tensor([new_user]))
    assert torch.equal(found, model.users(history))
    own = model.user_embedding.weight[2] / (model.config.layers + 1)
    assert torch.allclose(found[0], dense_vectors(model, events)[2] - own, atol=1e-6)


@torch.no_grad()
def test_empty_history_gets_the_mean_user(model, events):
    mean_user = dense_vectors(model, events)[:5].mean(0)
    for history in ([], [-1, -1], [99]):
        rows = torch.tensor([history], dtype=torch.int64)
        for user in (None, torch.tensor([0]), torch.tensor([-1])):
            assert torch.allclose(model.users(rows, user)[0], mean_user, atol=1e-6)


def test_gradient_equals_that_of_the_dense_matrix(model):
    weighting = torch.linspace(-1, 1, 18 * 4).view(18, 4)
    weights = [model.user_embedding.weight, model.items.weight]
    ours = torch.autograd.grad((torch.stack(model.propagate()).mean(0) * weighting).sum(), weights)
    x, dense = torch.cat(weights).detach().requires_grad_(), model.graph.to_dense()
    layers = [x]
    for _ in range(model.config.layers):
        layers.append(dense @ layers[-1])
    (oracle,) = torch.autograd.grad((torch.stack(layers).mean(0) * weighting).sum(), x)
    assert torch.allclose(torch.cat(ours), oracle, atol=1e-5)


def test_without_user_embeddings_users_are_new_users(events):
    model = make_trainer("lightgcn", width=4, epochs=2, user_embeddings=False, device="cpu").learn(events)
    history = history_of(events, 2)
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([2])), model.users(history))
    assert not model.user_embedding.weight.any()
