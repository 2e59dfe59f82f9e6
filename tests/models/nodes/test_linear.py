"""The dot product of a mean history and a node."""

import pytest
import torch

from shortlist.models.nodes.linear import mean_vector
from tests.models.nodes.worlds import perturbed, rows_of, small


@pytest.mark.parametrize("history", ["ancestor", "item"])
def test_t20_fast_form_and_gradients_equal_the_naive_ones(history):
    config = small(kind="linear", history=history)
    scorer = perturbed(config).double()
    past, rows = rows_of(config)
    fast, naive = scorer.score(scorer.prepare(past), rows), scorer.naive(past, rows)
    assert torch.allclose(fast, naive, rtol=0, atol=1e-12)
    for mine, oracle in zip(
        *(torch.autograd.grad(x.square().sum(), scorer.parameters()) for x in (fast, naive)), strict=True
    ):
        assert torch.allclose(mine, oracle, rtol=0, atol=1e-12)
    shared = scorer.score_all(scorer.prepare(past), rows[1])
    assert torch.allclose(shared, scorer.naive(past, rows[1:2].expand(4, -1)), rtol=0, atol=1e-12)


def test_mean_vector_is_normalized_and_zero_for_an_empty_history():
    a = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]], [[1.0, 1.0]] * 3])
    there = torch.tensor([[True, True, False], [False] * 3])
    assert torch.allclose(mean_vector(a, there), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_t21_padding_and_truncated_items_do_not_change_scores():
    config = small(kind="linear")
    scorer = perturbed(config).eval()
    past, rows = rows_of(config)
    scores = scorer(past, rows)
    assert (scores[0] == 0).all()
    assert torch.equal(scorer(torch.nn.functional.pad(past, (3, 0), value=-1), rows), scores)
    assert torch.equal(scorer(torch.cat([past[:, :4], past], 1), rows), scores)
