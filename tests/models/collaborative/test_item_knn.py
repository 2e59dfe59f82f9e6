"""Item-kNN: sums of the largest cosines of each row of a dense matrix."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative import item_knn as knn
from shortlist.models.collaborative.item_knn import ItemKNN, ItemKNNConfig
from shortlist.testing.models import events_of
from shortlist.train.registry import make_trainer


@pytest.fixture(scope="module")
def log():
    """With repeats; the last item has no events."""
    random = np.random.default_rng(0)
    return events_of(np.sort(random.integers(0, 40, 300)), random.integers(0, 15, 300), 40, 16)


def cosines(events, neighbours):
    """All cosines [N, N] of the users of items, the `neighbours` largest of each row kept, equal ones by row."""
    matrix = np.zeros((events.n_users, events.n_items))
    matrix[events.users, events.items] = 1.0
    norms = np.maximum(np.linalg.norm(matrix, axis=0), 1e-12)
    similarity = matrix.T @ matrix / np.outer(norms, norms)
    np.fill_diagonal(similarity, 0.0)
    for row in similarity:
        row[np.argsort(-row.round(6), kind="stable")[neighbours:]] = 0.0
    return similarity


@torch.no_grad()
@pytest.mark.parametrize("neighbours", [1, 4, 15, 200])
def test_scores_are_sums_of_the_largest_cosines(log, neighbours):
    model = make_trainer("item-knn", neighbours=neighbours).learn(log)
    similarity, popularity = cosines(log, neighbours), log.popularity / len(log)
    for history in ([0], [3, 1, 4], list(range(16))):
        expected = similarity[history].sum(0) + 1e-6 * popularity
        scores = model.scores(torch.tensor([[-1, *history, 99]]))[0]
        assert np.allclose(scores.numpy(), expected, atol=1e-5)


@torch.no_grad()
def test_repeated_items_count_once(log):
    model = make_trainer("item-knn", neighbours=5).learn(log)
    once = model.scores(torch.tensor([[3, 1]]))
    assert torch.equal(model.scores(torch.tensor([[-1, 3, 3, 1, 3, 1]])), once)


@torch.no_grad()
def test_block_size_does_not_change_scores(log, monkeypatch):
    model = make_trainer("item-knn", neighbours=5).learn(log)
    histories = torch.randint(-1, 16, (6, 30), generator=torch.Generator().manual_seed(0))
    whole = model.scores(histories)
    for block in (1, 7, 29, 1000):
        monkeypatch.setattr(knn, "BLOCK", block)
        assert torch.equal(model.scores(histories), whole)


@torch.no_grad()
def test_items_without_similarity_come_last_by_popularity():
    model = ItemKNN(ItemKNNConfig(5, neighbours=2)).eval()
    model.neighbours.copy_(torch.tensor([[1, -1], [0, -1], [-1, -1], [-1, -1], [-1, -1]]))
    model.similarities[:2, 0] = 0.01
    model.popularity.copy_(torch.tensor([0.1, 0.0, 0.2, 0.6, 0.1]))
    assert model.scores(torch.tensor([[0]]))[0].argsort(descending=True).tolist()[:3] == [1, 3, 2]
    for history in ([], [-1], [99], [2]):  # none, or one without neighbours
        scores = model.scores(torch.tensor([history], dtype=torch.int64))[0]
        assert torch.equal(scores, 1e-6 * model.popularity)


@torch.no_grad()
def test_similarity_of_a_missing_neighbour_is_ignored():
    model = ItemKNN(ItemKNNConfig(3, neighbours=2)).eval()
    model.neighbours.copy_(torch.tensor([[1, -1], [-1, -1], [-1, -1]]))
    model.similarities.fill_(0.5)
    assert model.scores(torch.tensor([[0]])).tolist() == [[0.0, 0.5, 0.0]]
