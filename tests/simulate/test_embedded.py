"""The embedded data set: always there, always the same, and worth learning from."""

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


def test_the_small_one_has_its_size_and_splits(data: Dataset) -> None:
    assert (len(data.users), len(data.items), len(data.events)) == (300, 200, 12_000)
    assert data.clock == "ms"
    assert len(data.split().test) == 30


def test_it_is_the_same_every_time_and_another_with_another_seed(data: Dataset) -> None:
    assert embedded(size="small").fingerprint == data.fingerprint
    assert embedded(seed=1, size="small").fingerprint != data.fingerprint


def test_an_unknown_size_is_named() -> None:
    with pytest.raises(ConfigError, match="expected a size of demo, small, got 'big'"):
        embedded(size="big")


def top(scores: np.ndarray, cases: HeldOut, k: int) -> torch.Tensor:
    """The k best items no case has seen."""
    hidden = scores.copy()
    for row, (start, cut) in enumerate(zip(cases.starts, cases.cuts, strict=True)):
        hidden[row, cases.events.items[start:cut]] = -np.inf
    return torch.from_numpy(np.argsort(-hidden, axis=1, kind="stable")[:, :k].copy())


def test_neighbours_beat_popularity_and_popularity_beats_chance() -> None:
    data = embedded(size="demo")
    parts = data.split()
    met = parts.train.matrix()
    popularity = np.asarray(met.sum(axis=0)).ravel()
    similarity = (met.T @ met).toarray() / np.sqrt(np.outer(popularity, popularity) + 1)
    np.fill_diagonal(similarity, 0)
    seen = np.zeros((len(parts.test), len(data.items)), np.float32)
    for row, (start, cut) in enumerate(zip(parts.test.starts, parts.test.cuts, strict=True)):
        seen[row, data.events.items[start:cut]] = 1
    methods = {
        "chance": np.random.default_rng(0).random(seen.shape),
        "popular": np.broadcast_to(popularity, seen.shape),
        "neighbours": seen @ similarity,
    }
    truth = parts.test.relevant()
    means = {name: float(recall(top(of, parts.test, 20), truth, 20).mean()) for name, of in methods.items()}
    assert means["popular"] > 3 * means["chance"]
    assert means["neighbours"] > 1.5 * means["popular"]
