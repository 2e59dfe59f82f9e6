import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.train.models import item_knn as knn
from shortlist.train.models.item_knn import ItemKNNTrainer
from tests.train.logs import log, nothing


@pytest.fixture
def many():
    random = np.random.default_rng(0)
    return log(*(random.integers(0, 29, length) for length in random.integers(0, 15, 40)), n_items=30)


def dense_of(events, shrink):
    """Users who met both over the root of those who met each, and the shrink below the line."""
    met = events.matrix().toarray().astype(np.float64)
    norms = np.sqrt(met.sum(0))
    cosine = met.T @ met / np.maximum(np.outer(norms, norms) + shrink, 1e-12)
    np.fill_diagonal(cosine, 0.0)
    return cosine


@pytest.mark.parametrize("shrink", [0.0, 3.0])
@pytest.mark.parametrize(("neighbours", "cells"), [(29, 1 << 25), (5, 1 << 25), (5, 210)])
def test_neighbours_are_the_best_of_all_cosines(many, monkeypatch, neighbours, cells, shrink):
    """Few or all of them, in one block or in blocks of seven items."""
    monkeypatch.setattr(knn, "CELLS", cells)
    model, cosine = ItemKNNTrainer(neighbours, shrink).learn(many), dense_of(many, shrink)
    assert model.rows.shape == (30, neighbours)
    for item in range(30):
        best = np.sort(cosine[item])[::-1][:neighbours]
        assert np.allclose(model.likeness[item].numpy(), best, atol=1e-6)
        rows = model.rows[item]
        assert ((rows >= 0).numpy() == (best > 0)).all()
        assert np.allclose(cosine[item, rows[rows >= 0]], best[best > 0], atol=1e-6)


def test_with_all_neighbours_scores_are_sums_of_cosines(many):
    model, cosine = ItemKNNTrainer(29).learn(many), dense_of(many, 0.0)
    found = model.scores(torch.tensor([[4, 9, 9, -1]]))[0].numpy()
    assert np.allclose(found, cosine[4] + cosine[9], atol=2e-6)
    assert np.argmax(model.scores(torch.full((1, 1), -1))[0].numpy()) == np.argmax(many.popularity)


def test_a_shrink_makes_rare_pairs_less_alike():
    """Items 0 and 1 share their only user, 2 and 3 four of five."""
    events = log([0, 1], *([2, 3] for _ in range(4)), [2], [3], n_items=4)
    plain, careful = (ItemKNNTrainer(3, shrink).learn(events) for shrink in (0.0, 5.0))
    assert plain.likeness[0, 0] > plain.likeness[2, 0]
    assert careful.likeness[0, 0] < careful.likeness[2, 0]
    assert careful.likeness[2, 0].item() == pytest.approx(4 / (5 + 5))


def test_one_item_and_no_event_are_no_error():
    assert ItemKNNTrainer().learn(log([0], [0], n_items=1)).rows.tolist() == [[-1]]
    assert (ItemKNNTrainer().learn(nothing()).scores(torch.tensor([[0]])) == 0).all()


def test_settings_that_make_no_sense_are_refused(many):
    with pytest.raises(ConfigError, match="neighbours must lie between"):
        ItemKNNTrainer(neighbours=0).learn(many)
