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
)
from shortlist.train.loop.negatives import Proposal


def test_softmax_loss_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    assert softmax_loss(logits, torch.tensor([1])).item() == pytest.approx(math.log(4 / 3))


def test_sampled_softmax_over_all_others_is_the_full_softmax():
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    full = softmax_loss(logits, torch.zeros(5, dtype=torch.int64))
    assert torch.allclose(sampled_softmax_loss(logits[:, 0], logits[:, 1:]).mean(), full)


def test_sampled_softmax_is_right_on_average_where_draws_vary():
    generator = torch.Generator().manual_seed(1)
    others = torch.randn(200, generator=generator)
    drawn = torch.randint(0, 200, (4000, 50), generator=generator)
    lifted = (others[drawn].exp() * (200 / 50)).sum(1)
    assert lifted.mean().item() == pytest.approx(others.exp().sum().item(), rel=0.02)


def test_sampled_softmax_by_hand():
    positive, negatives = torch.tensor([math.log(2.0)]), torch.tensor([[0.0, math.log(3.0), -math.inf]])
    assert sampled_softmax_loss(positive, negatives).item() == pytest.approx(math.log(6 / 2))


def test_draws_by_popularity_less_what_was_expected_stand_for_the_whole_catalogue_on_average():
    """10,000 draws of 40: the mean of the corrected sums lies within 2 % of the full one, the plain one far off."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(60, generator=generator)
    proposal = Proposal.of(torch.arange(60).square().numpy(), 0.75, torch.device("cpu"))
    logits[-20:] += 1.5  # popular items are liked: without the correction the sum is too large
    torch.manual_seed(0)
    drawn = proposal.draw((10_000, 40))
    full = logits.exp().sum().item()
    corrected = (logits[drawn] - proposal.log_expected(drawn, 40)).exp().sum(1).mean().item()
    assert corrected == pytest.approx(full, rel=0.02)
    alike = (logits[drawn].exp() * (60 / 40)).sum(1).mean().item()
    assert alike > 1.2 * full


def test_where_every_other_item_is_drawn_once_as_expected_it_is_the_full_softmax():
    logits = torch.randn(1, 9, generator=torch.Generator().manual_seed(0))
    proposal = Proposal.of(torch.ones(9).numpy(), 0.0, torch.device("cpu"))
    drawn = torch.arange(9)
    others = (logits - proposal.log_expected(drawn, 9)).masked_fill(drawn == 4, -torch.inf)
    full = softmax_loss(logits, torch.tensor([4]))
    assert torch.allclose(sampled_softmax_loss(logits[:, 4], others), full)


def test_without_a_single_negative_the_sampled_softmax_costs_nothing_and_its_gradient_is_zero():
    positive = torch.tensor([0.5], requires_grad=True)
    drawn = torch.zeros(1, 3, requires_grad=True)
    loss = sampled_softmax_loss(positive, drawn.masked_fill(torch.ones(1, 3, dtype=torch.bool), -torch.inf))
    loss.sum().backward()
    assert loss.item() == 0.0
    assert positive.grad.item() == 0.0
    assert drawn.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_binary_loss_by_hand():
    positive = torch.tensor([0.0, math.log(3.0)])
    negatives = torch.tensor([[0.0, math.log(3.0), 9.0], [9.0, 9.0, 9.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    expected = [math.log(2) + (math.log(2) + math.log(4)) / 2, math.log(4 / 3)]
    assert binary_loss(positive, negatives, valid).tolist() == pytest.approx(expected)


def test_bpr_loss_by_hand():
    found = bpr_loss(torch.tensor([1.0, math.log(3.0)]), torch.tensor([1.0, 0.0]))
    assert found.tolist() == pytest.approx([math.log(2), math.log(4 / 3)])


def test_offer_loss_by_hand():
    chosen = torch.tensor([math.log(2.0), 1.0])
    others = torch.tensor([[0.0, math.log(5.0), 9.0], [9.0, 9.0, 9.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    assert offer_loss(chosen, others, valid).tolist() == pytest.approx([math.log(8 / 2), 0.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 3.0))
def test_a_better_order_never_costs_more(seed: int, lift: float):
    """Whether the wanted one rises or an unwanted one falls; what does not count changes nothing."""
    generator = torch.Generator().manual_seed(seed)
    wanted, others = torch.randn(4, generator=generator), torch.randn(4, 3, generator=generator)
    counts = torch.rand(4, 3, generator=generator) < 0.7
    fewer = others - lift * (torch.arange(3) == 1)
    losses = {
        "sampled": lambda one, rest: sampled_softmax_loss(one, rest.masked_fill(~counts, -torch.inf)),
        "binary": lambda one, rest: binary_loss(one, rest, counts),
        "bpr": lambda one, rest: bpr_loss(one, rest[:, 1]),
        "offer": lambda one, rest: offer_loss(one, rest, counts),
    }
    for name, loss in losses.items():
        before = loss(wanted, others)
        assert (loss(wanted + lift, others) <= before).all(), name
        assert (loss(wanted, fewer) <= before).all(), name
        if name != "bpr":
            assert torch.equal(loss(wanted, others + 5 * ~counts), before), name


def test_listwise_loss_by_hand():
    scores = torch.tensor([[math.log(2.0), 0.0, 0.0, 9.0]])
    wanted = torch.tensor([[True, False, False, False]])
    valid = torch.tensor([[True, True, True, False]])  # the last place holds nothing
    assert listwise_loss(scores, wanted, valid).item() == pytest.approx(math.log(2.0))


def test_wanted_candidates_do_not_compete_with_each_other():
    wanted = torch.tensor([[True, True]])
    assert listwise_loss(torch.tensor([[5.0, -5.0]]), wanted, wanted).item() == 0.0


def test_nothing_wanted_costs_nothing_and_has_a_gradient():
    scores = torch.zeros(2, 3, requires_grad=True)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    loss = listwise_loss(scores, nothing, ~nothing)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.isfinite(scores.grad).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 3.0))
def test_lifting_a_wanted_candidate_never_costs_more(seed: int, lift: float):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, 6, generator=generator)
    wanted = torch.tensor([[True, False, False, True, False, False]])
    better = scores + lift * wanted
    everything = torch.ones_like(wanted)
    assert listwise_loss(better, wanted, everything) <= listwise_loss(scores, wanted, everything)
