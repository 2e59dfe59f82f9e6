import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.train.losses import listwise_loss, sampled_softmax_loss, softmax_loss


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
