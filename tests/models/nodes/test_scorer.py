"""Shared parts of scorers: lookups, initial weights, history lengths."""

import pytest
import torch

from shortlist.models.nodes import make_scorer
from shortlist.models.nodes.scorer import PReLU, at_least_float32, last
from tests.models.nodes.worlds import perturbed, rows_of, small


def test_histories_are_truncated_and_padded_on_the_left():
    history = torch.tensor([[4, 5, 6]])
    assert last(history, 2).tolist() == [[5, 6]]
    assert last(history, 3).tolist() == [[4, 5, 6]]
    assert last(history, 5).tolist() == [[-1, -1, 4, 5, 6]]


@pytest.mark.parametrize("history", ["ancestor", "item"])
@pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
def test_lazy_tables_have_sparse_gradients_of_equal_value(kind, history):
    config = small(kind=kind, history=history)
    past, rows = rows_of(config)
    dense, lazy = perturbed(config), perturbed(config)
    lazy.lazy = True
    for scorer in (dense, lazy):
        scorer(past, rows).square().sum().backward()
    assert lazy.nodes.weight.grad.is_sparse
    assert not dense.nodes.weight.grad.is_sparse
    assert torch.allclose(lazy.nodes.weight.grad.to_dense(), dense.nodes.weight.grad, atol=1e-6)
    if history == "item":
        assert torch.allclose(lazy.items.weight.grad.to_dense(), dense.items.weight.grad, atol=1e-6)


def test_an_item_table_exists_only_for_item_histories():
    assert make_scorer(small(), 0).items is None
    assert make_scorer(small(history="item"), 0).items.weight.shape == (30, 8)


def test_initial_weights_have_the_configured_deviation():
    scorer = make_scorer(small(n_rows=4000, spread=0.3, width=24, hidden=36), 0)
    assert scorer.nodes.weight.std().item() == pytest.approx(0.3, rel=0.02)
    assert scorer.unit1.weight.std().item() == pytest.approx(72**-0.5, rel=0.05)
    assert (scorer.unit1.bias == 0.1).all()
    assert scorer.act1.slope.item() == 0.25


def test_prelu_scales_negative_inputs():
    assert PReLU()(torch.tensor([-4.0, 0.0, 3.0])).tolist() == [-1.0, 0.0, 3.0]


def test_scores_are_float32_or_float64():
    assert at_least_float32(torch.ones(1, dtype=torch.bfloat16)).dtype == torch.float32
    assert at_least_float32(torch.ones(1, dtype=torch.float64)).dtype == torch.float64
