from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.train.models.counting import item_knn as knn
from shortlist.train.models.counting.item_knn import ItemKNNTrainer
from shortlist.train.registry import make_trainer
from tests.train.logs import log, nothing


@pytest.fixture
def many():
    random = np.random.default_rng(0)
    return log(*(random.integers(0, 29, length) for length in random.integers(0, 15, 40)), n_items=30)


def dense_of(events, shrink):
    """Users of both items over the geometric mean of the users of each, with shrink in the denominator."""
    matrix = events.matrix().toarray().astype(np.float64)
    norms = np.sqrt(matrix.sum(0))
    cosine = matrix.T @ matrix / np.maximum(np.outer(norms, norms) + shrink, 1e-12)
    np.fill_diagonal(cosine, 0.0)
    return cosine


@pytest.mark.parametrize("shrink", [0.0, 3.0])
@pytest.mark.parametrize(("neighbours", "cells"), [(29, 1 << 25), (5, 1 << 25), (5, 210)])
def test_neighbours_have_the_largest_cosines(many, monkeypatch, neighbours, cells, shrink):
    """Few or all neighbours, in one block or in blocks of seven items."""
    monkeypatch.setattr(knn, "CELLS", cells)
    model, cosine = (
        make_trainer("item-knn", neighbours=neighbours, shrink=shrink).learn(many),
        dense_of(many, shrink),
    )
    assert model.neighbours.shape == (30, neighbours)
    for item in range(30):
        best = np.sort(cosine[item])[::-1][:neighbours]
        assert np.allclose(model.similarities[item].numpy(), best, atol=1e-6)
        rows = model.neighbours[item]
        assert ((rows >= 0).numpy() == (best > 0)).all()
        assert np.allclose(cosine[item, rows[rows >= 0]], best[best > 0], atol=1e-6)


def test_with_all_neighbours_scores_are_sums_of_cosines(many):
    model, cosine = make_trainer("item-knn", neighbours=29).learn(many), dense_of(many, 0.0)
    found = model.scores(torch.tensor([[4, 9, 9, -1]]))[0].numpy()
    assert np.allclose(found, cosine[4] + cosine[9], atol=2e-6)
    assert np.argmax(model.scores(torch.full((1, 1), -1))[0].numpy()) == np.argmax(many.popularity)


def test_shrink_damps_the_similarity_of_rare_pairs():
    """Items 0 and 1 share their only user, 2 and 3 four of five."""
    events = log([0, 1], *([2, 3] for _ in range(4)), [2], [3], n_items=4)
    plain, careful = (
        make_trainer("item-knn", neighbours=3, shrink=shrink).learn(events) for shrink in (0.0, 5.0)
    )
    assert plain.similarities[0, 0] > plain.similarities[2, 0]
    assert careful.similarities[0, 0] < careful.similarities[2, 0]
    assert careful.similarities[2, 0].item() == pytest.approx(4 / (5 + 5))


def test_one_item_or_no_events_are_accepted():
    assert ItemKNNTrainer().learn(log([0], [0], n_items=1)).neighbours.tolist() == [[-1]]
    assert (ItemKNNTrainer().learn(nothing()).scores(torch.tensor([[0]])) == 0).all()


def test_invalid_settings_are_refused(many):
    with pytest.raises(ConfigError, match="neighbours must lie between"):
        make_trainer("item-knn", neighbours=0).learn(many)


def test_weights_are_the_values_of_the_cosine(many):
    weights = np.random.default_rng(1).integers(1, 6, len(many)).astype(np.float32)
    events = replace(many, weights=weights)
    dense = np.zeros((events.n_users, events.n_items))
    np.maximum.at(dense, (events.users, events.items), weights / weights.mean())
    norms = np.linalg.norm(dense, axis=0)
    cosine = dense.T @ dense / np.maximum(np.outer(norms, norms) + 3.0, 1e-12)
    np.fill_diagonal(cosine, 0.0)
    model = make_trainer("item-knn", neighbours=5, shrink=3.0).learn(events)
    assert np.allclose(model.similarities, np.sort(cosine, axis=1)[:, :-6:-1], atol=1e-6)
    summed = np.bincount(events.items, weights, events.n_items)
    assert np.allclose(model.popularity, summed / summed.sum(), atol=1e-6)
