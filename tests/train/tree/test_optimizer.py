import math
from itertools import pairwise

import pytest
import torch

from shortlist.train.tree import optimizer as module
from shortlist.train.tree.optimizer import TreeOptimizer, learning_rate_at
from shortlist.train.tree.plan import TreePlan
from tests.train.tree.small import plan, small_index

ROWS = torch.tensor([[0, 5, 7]])


def scorer(kind="mlp", **given):
    return small_index(30, kind=kind, **given).scorer


def loss_of(one):
    return one.score(one.prepare(torch.tensor([[3, 4, 5, -1, 2, 1]])), ROWS).square().sum()


def run_steps(one, optimizer, steps, first=0):
    for step in range(first, first + steps):
        optimizer.set_learning_rate(step)
        optimizer.step(loss_of(one))


def test_the_released_schedule_is_that_of_the_authors_code():
    plan_ = TreePlan(
        learning_rate=1e-3,
        warmup=5000,
        lr_schedule="exponential",
        lr_decay_steps=15_000,
        steps=80_000,
        rounds=12,
        restart=True,
    )
    for step in (0, 10, 4999, 5000, 7000, 79_999):
        expected = max(1e-3 * min((step + 1) / 5000, math.exp((5000 - step - 1) / 15_000)), 1e-6)
        for round_ in (0, 3):
            assert learning_rate_at(plan_, step + round_ * 80_000) == pytest.approx(expected)


def test_without_restart_the_schedule_spans_all_rounds():
    plan_ = TreePlan(learning_rate=1.0, warmup=10, lr_schedule="cosine", rounds=4, steps=25)
    rates = [learning_rate_at(plan_, step) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert all(one >= two for one, two in pairwise(rates[9:]))
    assert rates[-1] == pytest.approx(0.02)
    again = TreePlan(learning_rate=1.0, warmup=10, lr_schedule="cosine", rounds=4, steps=25, restart=True)
    assert [learning_rate_at(again, step) for step in range(25)] == [
        learning_rate_at(again, step + 50) for step in range(25)
    ]


def test_schedule_none_is_constant_and_no_learning_rate_falls_below_1e_6():
    assert {
        learning_rate_at(TreePlan(learning_rate=0.5, warmup=0, lr_schedule="none"), step)
        for step in range(50)
    } == {0.5}
    assert (
        learning_rate_at(
            TreePlan(learning_rate=1e-3, warmup=0, lr_schedule="exponential", lr_decay_steps=1), 1000
        )
        == 1e-6
    )


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_a_step_equals_that_of_the_torch_optimizer(name, kind):
    settings = plan(optimizer=name, weight_decay=0.1, lr_schedule="none", warmup=0, clip=0.0, amsgrad=True)
    ours, theirs = scorer(), scorer()
    run_steps(ours, TreeOptimizer(settings, ours), 3)
    other = kind(theirs.parameters(), lr=settings.learning_rate, weight_decay=0.1, amsgrad=True)
    for _ in range(3):
        other.zero_grad()
        loss_of(theirs).backward()
        other.step()
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, two)


def test_clipping_bounds_the_gradient():
    one = scorer()
    optimizer = TreeOptimizer(plan(clip=1e-3, warmup=0), one)
    optimizer.set_learning_rate(0)
    optimizer.step(1e6 * loss_of(one))
    norm = torch.stack([p.grad.norm() for p in one.parameters() if p.grad is not None]).norm()
    assert float(norm) <= 1.001e-3


def test_rows_of_a_large_table_without_gradient_do_not_change(monkeypatch):
    monkeypatch.setattr(module, "SPARSE_ROWS", 10)
    one = scorer(history="item")
    before = one.nodes.weight.detach().clone()
    optimizer = TreeOptimizer(plan(weight_decay=0.5, history="item"), one)
    assert one.lazy
    assert [type(part).__name__ for part in optimizer.parts] == ["AdamW", "SparseAdam"]
    run_steps(one, optimizer, 3)
    moved = (one.nodes.weight != before).any(1).nonzero()[:, 0]
    assert moved.tolist() == ROWS[0].tolist()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_restored_optimizer_continues_with_the_same_bytes(kind, lazy, monkeypatch):
    monkeypatch.setattr(module, "SPARSE_ROWS", 10 if lazy else 10**9)
    settings = plan(amsgrad=True)
    whole, parted = scorer(kind), scorer(kind)
    run_steps(whole, TreeOptimizer(settings, whole), 8)
    first = TreeOptimizer(settings, parted)
    run_steps(parted, first, 5)
    second = TreeOptimizer(settings, parted)
    second.restore(first.tensors())
    run_steps(parted, second, 3, first=5)
    for one, two in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_restored_optimizer_shares_no_tensors():
    one = scorer()
    first = TreeOptimizer(plan(), one)
    run_steps(one, first, 2)
    second = TreeOptimizer(plan(), one)
    second.restore(first.tensors())
    before = {name: value.clone() for name, value in first.tensors().items()}
    run_steps(one, second, 2)
    assert all(torch.equal(value, before[name]) for name, value in first.tensors().items())


def test_a_new_optimizer_has_no_state():
    optimizer = TreeOptimizer(plan(), scorer())
    assert optimizer.tensors() == {}
    optimizer.restore({})
