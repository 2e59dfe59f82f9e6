import numpy as np
import torch

from shortlist.data import Query
from shortlist.reproduce.simple import autoencoder, cosine, linear


def test_the_autoencoder_solves_its_least_squares_problem():
    """No other weights with a zero diagonal rebuild a column better under the ridge."""
    met = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (40, 6))).to(torch.float64)
    weights = autoencoder(met, 200.0)
    for item in range(6):
        others = [other for other in range(6) if other != item]
        inputs = met[:, others]
        solved = torch.linalg.solve(inputs.T @ inputs + 200.0 * torch.eye(5), inputs.T @ met[:, item])
        assert torch.allclose(weights[others, item], solved)
    assert not weights.diagonal().any()


def test_padding_is_nothing_that_was_met():
    score = linear(torch.eye(3))
    assert score(Query.of([[1], [0, 2]]), slice(0, 3)).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]


def test_cosines_compare_who_met_what():
    met = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(
        cosine(met), torch.tensor([[0.0, 0.5**0.5, 0.0], [0.5**0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    )
