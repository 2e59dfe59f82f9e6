import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConfigError
from shortlist.reproduce import demo_world
from shortlist.reproduce.world import _autoencoder, _linear


def test_chance_popularity_neighbours_and_the_truth_come_in_this_order():
    told = demo_world(None, "quick", seeds=[0])
    means = {one["method"]: one["mean"] for one in told["rows"] if one["metric"] == "recall@20"}
    assert means["random"] < means["popularity"] < means["item neighbours"] < means["truth"]
    assert [one["id"] for one in told["claims"]] == [
        "popularity > random",
        "item neighbours > popularity",
        "truth > item neighbours",
    ]


def test_the_autoencoder_solves_its_least_squares_problem():
    """No other weights with a zero diagonal rebuild a column better under the ridge."""
    met = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (40, 6))).to(torch.float64)
    weights = _autoencoder(met)
    for item in range(6):
        others = [other for other in range(6) if other != item]
        inputs = met[:, others]
        solved = torch.linalg.solve(inputs.T @ inputs + 200.0 * torch.eye(5), inputs.T @ met[:, item])
        assert torch.allclose(weights[others, item], solved)
    assert not weights.diagonal().any()


def test_padding_is_nothing_that_was_met():
    score = _linear(torch.eye(3))
    assert score(Query.of([[1], [0, 2]]), slice(0, 3)).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        demo_world(None, "medium")
