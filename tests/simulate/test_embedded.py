"""The embedded data set: reproducible, and models can learn from it."""

import numpy as np
import pytest
import torch

from shortlist.data import Dataset, HeldOut
from shortlist.errors import ConfigError
from shortlist.metrics.ranking import recall
from shortlist.simulate import embedded


@pytest.fixture(scope="module")
def data() -> Dataset:
    return embedded(size="small")


def test_the_small_data_set_has_its_size_and_can_be_split(data: Dataset) -> None:
    assert (len(data.users), len(data.items), len(data.events)) == (300, 200, 12_000)
    assert data.clock == "ms"
    assert len(data.split().test) == 30


def test_the_data_set_depends_only_on_the_seed(data: Dataset) -> None:
    assert embedded(size="small").fingerprint == data.fingerprint
    assert embedded(seed=1, size="small").fingerprint != data.fingerprint


def test_an_unknown_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a size of demo, small, got 'big'"):
        embedded(size="big")


def top(scores: np.ndarray, cases: HeldOut, k: int) -> torch.Tensor:
    """The k best items outside each history."""
    hidden = scores.copy()
    for row, (start, cut) in enumerate(zip(cases.starts, cases.cuts, strict=True)):
        hidden[row, cases.events.items[start:cut]] = -np.inf
    return torch.from_numpy(np.argsort(-hidden, axis=1, kind="stable")[:, :k].copy())


def test_item_knn_beats_popularity_and_popularity_beats_random() -> None:
    data = embedded(size="demo")
    parts = data.split()
    matrix = parts.train.matrix()
    popularity = np.asarray(matrix.sum(axis=0)).ravel()
    similarity = (matrix.T @ matrix).toarray() / np.sqrt(np.outer(popularity, popularity) + 1)
    np.fill_diagonal(similarity, 0)
    seen = np.zeros((len(parts.test), len(data.items)), np.float32)
    for row, (start, cut) in enumerate(zip(parts.test.starts, parts.test.cuts, strict=True)):
        seen[row, data.events.items[start:cut]] = 1
    methods = {
        "random": np.random.default_rng(0).random(seen.shape),
        "popular": np.broadcast_to(popularity, seen.shape),
        "neighbours": seen @ similarity,
    }
    relevant = parts.test.relevant()
    means = {
        name: float(recall(top(of, parts.test, 20), relevant, 20).mean()) for name, of in methods.items()
    }
    assert means["popular"] > 3 * means["random"]
    assert means["neighbours"] > 1.5 * means["popular"]
