import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.train.loop.losses import (
    binary_loss,
    bpr_loss,
    listwise_loss,
    offer_loss,
    sampled_softmax_loss,
    softmax_loss,
    weighted_mean,
)
from shortlist.train.loop.negatives import NegativeSampler


def test_softmax_loss_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    assert softmax_loss(logits, torch.tensor([1])).item() == pytest.approx(math.log(4 / 3))


def test_sampled_softmax_over_all_others_is_the_full_softmax():
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    full = softmax_loss(logits, torch.zeros(5, dtype=torch.int64))
    assert torch.allclose(sampled_softmax_loss(logits[:, 0], logits[:, 1:]).mean(), full)


def test_sampled_softmax_is_unbiased():
    generator = torch.Generator().manual_seed(1)
    others = torch.randn(200, generator=generator)
    sampled = torch.randint(0, 200, (4000, 50), generator=generator)
    estimate = (others[sampled].exp() * (200 / 50)).sum(1)
    assert estimate.mean().item() == pytest.approx(others.exp().sum().item(), rel=0.02)


def test_sampled_softmax_by_hand():
    positive, negatives = torch.tensor([math.log(2.0)]), torch.tensor([[0.0, math.log(3.0), -math.inf]])
    assert sampled_softmax_loss(positive, negatives).item() == pytest.approx(math.log(6 / 2))


def test_samples_by_popularity_with_correction_are_unbiased():
    """The mean of 10,000 corrected sums of 40 samples is within 2 % of the full sum; without correction it is not."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(60, generator=generator)
    sampler = NegativeSampler.of(torch.arange(60).square().numpy(), 0.75, torch.device("cpu"))
    logits[-20:] += 1.5  # popular items have large logits, so the uncorrected sum is too large
    torch.manual_seed(0)
    sampled = sampler.sample((10_000, 40))
    full = logits.exp().sum().item()
    corrected = (logits[sampled] - sampler.log_expected(sampled, 40)).exp().sum(1).mean().item()
    assert corrected == pytest.approx(full, rel=0.02)
    uncorrected = (logits[sampled].exp() * (60 / 40)).sum(1).mean().item()
    assert uncorrected > 1.2 * full


def test_every_other_item_sampled_once_gives_the_full_softmax():
    logits = torch.randn(1, 9, generator=torch.Generator().manual_seed(0))
    sampler = NegativeSampler.of(torch.ones(9).numpy(), 0.0, torch.device("cpu"))
    sampled = torch.arange(9)
    others = (logits - sampler.log_expected(sampled, 9)).masked_fill(sampled == 4, -torch.inf)
    full = softmax_loss(logits, torch.tensor([4]))
    assert torch.allclose(sampled_softmax_loss(logits[:, 4], others), full)


def test_sampled_softmax_without_negatives_has_zero_loss_and_gradient():
    positive = torch.tensor([0.5], requires_grad=True)
    sampled = torch.zeros(1, 3, requires_grad=True)
    loss = sampled_softmax_loss(positive, sampled.masked_fill(torch.ones(1, 3, dtype=torch.bool), -torch.inf))
    loss.sum().backward()
    assert loss.item() == 0.0
    assert positive.grad.item() == 0.0
    assert sampled.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_binary_loss_by_hand():
    positive = torch.tensor([0.0, math.log(3.0)])
    negatives = torch.tensor([[0.0, math.log(3.0), 9.0], [9.0, 9.0, 9.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    expected = [math.log(2) + (math.log(2) + math.log(4)) / 2, math.log(4 / 3)]
    assert binary_loss(positive, negatives, valid).tolist() == pytest.approx(expected)


def test_bpr_loss_by_hand():
    losses = bpr_loss(torch.tensor([1.0, math.log(3.0)]), torch.tensor([1.0, 0.0]))
    assert losses.tolist() == pytest.approx([math.log(2), math.log(4 / 3)])


def test_offer_loss_by_hand():
    chosen = torch.tensor([math.log(2.0), 1.0])
    others = torch.tensor([[0.0, math.log(5.0), 9.0], [9.0, 9.0, 9.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    assert offer_loss(chosen, others, valid).tolist() == pytest.approx([math.log(8 / 2), 0.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 3.0))
def test_better_order_never_has_a_larger_loss(seed: int, lift: float):
    """A higher target and a lower negative never increase the loss; invalid negatives change nothing."""
    generator = torch.Generator().manual_seed(seed)
    target, others = torch.randn(4, generator=generator), torch.randn(4, 3, generator=generator)
    counts = torch.rand(4, 3, generator=generator) < 0.7
    lower = others - lift * (torch.arange(3) == 1)
    losses = {
        "sampled": lambda own, rest: sampled_softmax_loss(own, rest.masked_fill(~counts, -torch.inf)),
        "binary": lambda own, rest: binary_loss(own, rest, counts),
        "bpr": lambda own, rest: bpr_loss(own, rest[:, 1]),
        "offer": lambda own, rest: offer_loss(own, rest, counts),
    }
    for name, loss in losses.items():
        before = loss(target, others)
        assert (loss(target + lift, others) <= before).all(), name
        assert (loss(target, lower) <= before).all(), name
        if name != "bpr":
            assert torch.equal(loss(target, others + 5 * ~counts), before), name


def test_listwise_loss_by_hand():
    scores = torch.tensor([[math.log(2.0), 0.0, 0.0, 9.0]])
    target = torch.tensor([[True, False, False, False]])
    valid = torch.tensor([[True, True, True, False]])  # the last place is empty
    assert listwise_loss(scores, target, valid).item() == pytest.approx(math.log(2.0))


def test_targets_do_not_compete_with_each_other():
    target = torch.tensor([[True, True]])
    assert listwise_loss(torch.tensor([[5.0, -5.0]]), target, target).item() == 0.0


def test_list_without_targets_has_zero_loss_and_a_finite_gradient():
    scores = torch.zeros(2, 3, requires_grad=True)
    none = torch.zeros(2, 3, dtype=torch.bool)
    loss = listwise_loss(scores, none, ~none)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.isfinite(scores.grad).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 3.0))
def test_higher_target_never_has_a_larger_loss(seed: int, lift: float):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, 6, generator=generator)
    target = torch.tensor([[True, False, False, True, False, False]])
    better = scores + lift * target
    valid = torch.ones_like(target)
    assert listwise_loss(better, target, valid) <= listwise_loss(scores, target, valid)


def test_weights_multiply_losses_before_the_mean():
    logits, target = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 3, 1, 1])
    weights = torch.tensor([2.0, 1.0, 3.0, 2.0])
    repeated = torch.arange(4).repeat_interleave(weights.long())
    assert torch.allclose(
        4 * softmax_loss(logits, target, weights), 8 * softmax_loss(logits[repeated], target[repeated])
    )
    assert torch.equal(weighted_mean(weights, None), weights.mean())
