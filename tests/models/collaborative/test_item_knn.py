"""Item-kNN: sums of the cosines of a dense table, the best few of each row alone."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative import item_knn as knn
from shortlist.models.collaborative.item_knn import ItemKNN, ItemKNNConfig
from shortlist.testing.models import events_of
from shortlist.train.models.item_knn import ItemKNNTrainer


@pytest.fixture(scope="module")
def log():
    """With repeats; nobody met the last item."""
    random = np.random.default_rng(0)
    return events_of(np.sort(random.integers(0, 40, 300)), random.integers(0, 15, 300), 40, 16)


def cosines(events, neighbours):
    """All cosines [N, N] of who met an item, the `neighbours` best of each row kept, equal ones by row."""
    met = np.zeros((events.n_users, events.n_items))
    met[events.users, events.items] = 1.0
    norms = np.maximum(np.linalg.norm(met, axis=0), 1e-12)
    like = met.T @ met / np.outer(norms, norms)
    np.fill_diagonal(like, 0.0)
    for row in like:
        row[np.argsort(-row.round(6), kind="stable")[neighbours:]] = 0.0
    return like


@torch.no_grad()
@pytest.mark.parametrize("neighbours", [1, 4, 15, 200])
def test_scores_are_sums_of_the_best_cosines(log, neighbours):
    model = ItemKNNTrainer(neighbours=neighbours).learn(log)
    like, popularity = cosines(log, neighbours), log.popularity / len(log)
    for history in ([0], [3, 1, 4], list(range(16))):
        expected = like[history].sum(0) + 1e-6 * popularity
        told = model.scores(torch.tensor([[-1, *history, 99]]))[0]
        assert np.allclose(told.numpy(), expected, atol=1e-5)


@torch.no_grad()
def test_what_is_met_twice_speaks_once(log):
    model = ItemKNNTrainer(neighbours=5).learn(log)
    one = model.scores(torch.tensor([[3, 1]]))
    assert torch.equal(model.scores(torch.tensor([[-1, 3, 3, 1, 3, 1]])), one)


@torch.no_grad()
def test_long_histories_are_read_in_parts_and_say_the_same(log, monkeypatch):
    model = ItemKNNTrainer(neighbours=5).learn(log)
    histories = torch.randint(-1, 16, (6, 30), generator=torch.Generator().manual_seed(0))
    whole = model.scores(histories)
    for places in (1, 7, 29, 1000):
        monkeypatch.setattr(knn, "BLOCK", places)
        assert torch.equal(model.scores(histories), whole)


@torch.no_grad()
def test_what_nobody_speaks_for_stands_below_by_popularity():
    model = ItemKNN(ItemKNNConfig(5, neighbours=2)).eval()
    model.neighbours.copy_(torch.tensor([[1, -1], [0, -1], [-1, -1], [-1, -1], [-1, -1]]))
    model.similarities[:2, 0] = 0.01
    model.popularity.copy_(torch.tensor([0.1, 0.0, 0.2, 0.6, 0.1]))
    assert model.scores(torch.tensor([[0]]))[0].argsort(descending=True).tolist()[:3] == [1, 3, 2]
    for history in ([], [-1], [99], [2]):  # none, or one without neighbours
        told = model.scores(torch.tensor([history], dtype=torch.int64))[0]
        assert torch.equal(told, 1e-6 * model.popularity)


@torch.no_grad()
def test_a_place_without_a_neighbour_says_nothing_whatever_stands_there():
    model = ItemKNN(ItemKNNConfig(3, neighbours=2)).eval()
    model.neighbours.copy_(torch.tensor([[1, -1], [-1, -1], [-1, -1]]))
    model.similarities.fill_(0.5)
    assert model.scores(torch.tensor([[0]])).tolist() == [[0.0, 0.5, 0.0]]
