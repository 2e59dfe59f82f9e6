import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.train.loop.blocked_softmax import blocked_softmax_loss


def case(count=23, n_items=11, width=4):
    generator = torch.Generator().manual_seed(0)
    users = torch.randn(count, width, generator=generator, requires_grad=True)
    items = torch.randn(n_items, width, generator=generator, requires_grad=True)
    target = torch.randint(n_items, (count,), generator=generator)
    return users, items, target, torch.rand(count, generator=generator)


@pytest.mark.parametrize("block", [1, 30, 11 * 5, 10_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradients_equal_those_of_all_logits(block, weighted):
    users, items, target, weights = case()
    found = blocked_softmax_loss(users, items, target, weights if weighted else None, block)
    losses = F.cross_entropy(users @ items.T, target, reduction="none")
    expected = (losses * weights if weighted else losses).mean()
    assert torch.allclose(found, expected)
    # A factor after the loss reaches both gradients.
    gradients = (torch.autograd.grad(3 * one, (users, items)) for one in (found, expected))
    for one, two in zip(*gradients, strict=True):
        assert torch.allclose(one, two, atol=1e-6)


def test_large_logits_do_not_overflow():
    users, items, target, _ = case()
    found = blocked_softmax_loss(users * 1e3, items, target)
    assert torch.allclose(found, F.cross_entropy(users @ items.T * 1e3, target), rtol=1e-4)


def test_no_position_has_zero_loss_and_zero_gradient():
    users, items, target, _ = case()
    loss = blocked_softmax_loss(users[:0], items, target[:0])
    loss.backward()
    assert loss.item() == 0
    assert not items.grad.any()
