import torch

from shortlist.data import Query
from shortlist.lab.experiments.linear_scores import cosine, linear


def test_padding_is_nothing_that_was_met():
    score = linear(torch.eye(3))
    assert score(Query.of([[1], [0, 2]]), slice(0, 3)).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]


def test_cosines_compare_who_met_what():
    met = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(
        cosine(met), torch.tensor([[0.0, 0.5**0.5, 0.0], [0.5**0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    )
