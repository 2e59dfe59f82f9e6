"""The loss over shared items: the plain formula, in blocks of any size."""

import pytest
import torch

from shortlist.train.loop import shared_offers
from shortlist.train.loop.losses import weighted_mean
from shortlist.train.loop.shared_offers import shared_offer_loss


def given(seed=0, positives=13, items=9, width=5):
    torch.manual_seed(seed)
    users = torch.randn(positives, width, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(items, width, dtype=torch.float64, requires_grad=True)
    target = torch.randint(items, (positives,))
    bias, own = torch.randn(items, dtype=torch.float64), torch.randn(positives, dtype=torch.float64)
    return users, vectors, target, bias, own


def plain(users, items, target, bias, own, weights=None, hidden=None):
    logits = users @ items.T + bias
    positive = logits.gather(1, target[:, None])[:, 0] + own
    others = logits if hidden is None else logits.masked_fill(hidden, -torch.inf)
    others = others.scatter(1, target[:, None], positive[:, None])
    return weighted_mean(others.logsumexp(1) - positive, weights)


@pytest.mark.parametrize("block", [1, 20, 1 << 18])
@pytest.mark.parametrize("kind", ["plain", "weighted", "hidden"])
def test_loss_and_gradients_equal_the_plain_formula(block, kind, monkeypatch):
    monkeypatch.setattr(shared_offers, "BLOCK", block)
    monkeypatch.setattr(shared_offers, "ROWS", 1)
    args = given()
    weights = torch.rand(13, dtype=torch.float64).round(decimals=0) * 2 if kind == "weighted" else None
    hidden = torch.rand(13, 9) < 0.5 if kind == "hidden" else None
    expected, loss = plain(*args, weights, hidden), shared_offer_loss(*args, weights, hidden)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for one, two in zip(
        torch.autograd.grad(3 * loss, args[:2]), torch.autograd.grad(3 * expected, args[:2]), strict=True
    ):
        assert torch.allclose(one, two, atol=1e-12)


def test_large_scores_are_finite():
    users, items, target, bias, own = given()
    loss = shared_offer_loss(users * 1e4, items, target, bias, own)
    assert loss.isfinite()
    assert torch.autograd.grad(loss, users)[0].isfinite().all()


def test_events_of_weight_zero_have_no_gradient():
    users, items, target, bias, own = given()
    weights = torch.ones(13, dtype=torch.float64)
    weights[4] = 0
    gradient = torch.autograd.grad(shared_offer_loss(users, items, target, bias, own, weights), users)[0]
    assert (gradient != 0).any(1).tolist() == [at != 4 for at in range(13)]


def test_without_gradients_only_the_loss_is_computed():
    args = given()
    with torch.no_grad():
        assert shared_offer_loss(*args).item() == pytest.approx(plain(*args).item())
