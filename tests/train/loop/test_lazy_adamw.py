import copy

import torch
from torch import nn

from shortlist.train.loop.lazy_adamw import LazyAdamW, clip_gradients, use_sparse_gradients

SETTINGS = {"lr": 0.05, "weight_decay": 0.1}


def models(rows=6):
    torch.manual_seed(0)
    one = nn.Sequential(nn.Embedding(rows, 3), nn.Linear(3, 1))
    two = copy.deepcopy(one)
    use_sparse_gradients(one, rows=rows - 1)
    return one, two


def steps(model, optimizer, batches, norm=1e9):
    for rows in batches:
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        clip_gradients(model, norm)
        optimizer.step()


def test_steps_that_read_every_row_equal_adamw():
    sparse, dense = models()
    batches = [torch.tensor([0, 1, 2, 3, 4, 5, at]) for at in range(5)]
    steps(sparse, LazyAdamW(sparse.parameters(), **SETTINGS), batches, norm=0.1)
    steps(dense, torch.optim.AdamW(dense.parameters(), **SETTINGS), batches, norm=0.1)
    assert sparse[0].weight.grad is None  # it was sparse
    for one, two in zip(sparse.parameters(), dense.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-6)


def test_rows_without_a_gradient_keep_values_and_moments():
    model, _ = models()
    optimizer = LazyAdamW(model.parameters(), **SETTINGS)
    steps(model, optimizer, [torch.arange(6)])
    weights, moments = model[0].weight, optimizer.state[model[0].weight]["exp_avg"]
    before, moments_before = weights.detach().clone(), moments.clone()
    steps(model, optimizer, [torch.tensor([1, 4, 4])])
    changed = (weights != before).any(1)
    assert changed.tolist() == [False, True, False, False, True, False]
    assert torch.equal((moments != moments_before).any(1), changed)


def test_gradient_norm_counts_sparse_rows_once():
    sparse, dense = models()
    for model in (sparse, dense):
        model(torch.tensor([2, 2, 5])).square().sum().backward()
        clip_gradients(model, 0.01)
    assert sparse[0].weight.grad.is_sparse
    assert torch.allclose(sparse[0].weight.grad.to_dense(), dense[0].weight.grad)
    total = torch.nn.utils.get_total_norm([one.grad for one in dense.parameters()])
    assert torch.allclose(total, torch.tensor(0.01), rtol=1e-3)


def test_only_large_tables_get_sparse_gradients():
    model = nn.ModuleList([nn.Embedding(5, 2), nn.Embedding(6, 2)])
    use_sparse_gradients(model, rows=5)
    assert [one.sparse for one in model] == [False, True]


def test_state_of_a_sparse_table_is_saved_and_restored():
    model, _ = models()
    optimizer = LazyAdamW(model.parameters(), **SETTINGS)
    steps(model, optimizer, [torch.tensor([1, 4])])
    other = copy.deepcopy(model)
    again = LazyAdamW(other.parameters(), **SETTINGS)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, own in ((model, optimizer), (other, again)):
        steps(one, own, [torch.tensor([1, 2])])
    assert torch.equal(model[0].weight, other[0].weight)
