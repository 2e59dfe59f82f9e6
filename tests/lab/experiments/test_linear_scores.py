import torch

from shortlist.data import Query
from shortlist.lab.experiments.linear_scores import cosine, linear


def test_padding_adds_nothing_to_the_scores():
    score = linear(torch.eye(3))
    assert score(Query.of([[1], [0, 2]]), slice(0, 3)).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]


def test_cosines_compare_the_users_of_two_items():
    interactions = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(
        cosine(interactions), torch.tensor([[0.0, 0.5**0.5, 0.0], [0.5**0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    )
