"""Row-wise Adagrad: the formula, untouched rows, and its state in checkpoints."""

import copy

import torch
from torch import nn

from shortlist.train.loop.offers import batch_offer_loss
from shortlist.train.loop.rowwise_adagrad import EPSILON, RowwiseAdagrad


def tables(rows=8, width=3):
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "users": nn.Embedding(rows, width, sparse=True),
            "candidates": nn.Embedding(rows, width, sparse=True),
        }
    )


def step(model, optimizer, users, items, ids):
    optimizer.zero_grad()
    batch_offer_loss(model["users"](users), items, model["candidates"], ids).backward()
    optimizer.step()


def test_rows_outside_the_batch_are_bitwise_unchanged():
    """Spec test 15, over several steps, for weights and accumulators."""
    model = tables()
    before = {name: one.weight.detach().clone() for name, one in model.items()}
    optimizer = RowwiseAdagrad(model, lr=0.5)
    for _ in range(3):
        items = torch.tensor([2, 2, 5])
        step(model, optimizer, torch.tensor([0, 3, 3]), items, torch.cat([items, torch.tensor([7])]))
    for name, read in (("users", [0, 3]), ("candidates", [2, 5, 7])):
        changed = (model[name].weight != before[name]).any(1)
        assert changed.nonzero()[:, 0].tolist() == read
        squares = optimizer.state[model[name].weight]["squares"]
        assert (squares > 0).nonzero()[:, 0].tolist() == read


def test_a_row_moves_by_its_gradient_over_the_root_of_its_mean_squares():
    table = nn.Embedding(4, 3, sparse=True)
    optimizer = RowwiseAdagrad(table, lr=0.2)
    expected, squares = table.weight.detach().clone().double(), torch.zeros(4, dtype=torch.float64)
    for rows in ([1, 1, 3], [3], [0, 3, 0]):
        optimizer.zero_grad()
        factor = torch.arange(1.0, 1 + 3 * len(rows)).reshape(len(rows), 3)
        (table(torch.tensor(rows)) * factor).sum().backward()
        optimizer.step()
        gradient = torch.zeros(4, 3, dtype=torch.float64).index_add_(0, torch.tensor(rows), factor.double())
        squares += gradient.square().mean(1)
        expected -= 0.2 * gradient / (squares.sqrt() + EPSILON)[:, None]
    assert torch.allclose(table.weight.double(), expected, atol=1e-6)


def test_all_other_weights_are_updated_by_adamw():
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(5, 3, sparse=True), nn.Linear(3, 1)])
    layer = copy.deepcopy(model[1])
    optimizer = RowwiseAdagrad(model, lr=0.0, dense_lr=0.01, weight_decay=0.1)  # rows stay as they are
    other = torch.optim.AdamW(layer.parameters(), lr=0.01, weight_decay=0.1)
    rows = torch.tensor([0, 4])
    for _ in range(4):
        for own, linear in ((optimizer, model[1]), (other, layer)):
            own.zero_grad()
            linear(model[0](rows)).square().sum().backward()
            own.step()
        model[0].weight.grad = None
    for one, two in zip(model[1].parameters(), layer.parameters(), strict=True):
        assert torch.equal(one, two)


def test_state_is_restored():
    model = tables()
    optimizer = RowwiseAdagrad(model)
    batch = torch.tensor([1, 2]), torch.tensor([3, 4]), torch.tensor([3, 4, 6])
    step(model, optimizer, *batch)
    other = copy.deepcopy(model)
    again = RowwiseAdagrad(other)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, own in ((model, optimizer), (other, again)):
        step(one, own, *batch)
    for name in ("users", "candidates"):
        assert torch.equal(model[name].weight, other[name].weight)


def test_a_row_without_a_gradient_in_its_values_does_not_move():
    """Zero vectors have zero gradients; 0 / 0 would be NaN."""
    model = tables()
    for one in model.values():
        nn.init.zeros_(one.weight)
    items = torch.tensor([1, 2])
    step(model, RowwiseAdagrad(model), torch.tensor([0, 1]), items, torch.cat([items, torch.tensor([3])]))
    assert not model["users"].weight.any()
    assert not model["candidates"].weight.any()
