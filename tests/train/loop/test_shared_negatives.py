"""The loss against shared negatives: the plain formula, in blocks of any size."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.train.loop import shared_negatives
from shortlist.train.loop.offers import offer_softmax_loss
from shortlist.train.loop.shared_negatives import shared_negatives_loss


def given(seed=0, positives=13, items=9, width=5, sampled=12):
    torch.manual_seed(seed)
    users = torch.randn(positives, width, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(items, width, dtype=torch.float64, requires_grad=True)
    targets, ids = torch.randint(items, (positives,)), torch.randint(items // 2, (sampled,))
    log_q = torch.randn(items, dtype=torch.float64)
    return users, vectors, targets, ids, log_q


def ours(users, vectors, targets, ids, log_q, weights=None):
    chosen = (users * vectors[targets]).sum(1) - log_q[targets]
    return shared_negatives_loss(
        users, chosen, targets, ids, lambda rows: F.embedding(rows, vectors), log_q[ids], weights
    )


def plain(users, vectors, targets, ids, log_q, weights=None):
    hits = ids[None] == targets[:, None]
    return offer_softmax_loss(
        users, vectors[targets], vectors[ids], log_q[targets], log_q[ids], hits, weights
    )


@pytest.mark.parametrize("block", [1, 20, 1 << 18])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradients_equal_the_plain_formula(block, weighted, monkeypatch):
    monkeypatch.setattr(shared_negatives, "BLOCK", block)
    monkeypatch.setattr(shared_negatives, "ROWS", 1)
    args = given()
    weights = torch.rand(13, dtype=torch.float64).round(decimals=0) * 2 if weighted else None
    expected, loss = plain(*args, weights), ours(*args, weights)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for one, two in zip(
        torch.autograd.grad(3 * loss, args[:2]), torch.autograd.grad(3 * expected, args[:2]), strict=True
    ):
        assert torch.allclose(one, two, atol=1e-12)


def test_an_event_whose_negatives_are_all_its_target_has_no_loss():
    users, vectors, _, _, log_q = given()
    targets, ids = torch.full((13,), 3), torch.full((4,), 3)
    loss = ours(users, vectors, targets, ids, log_q)
    assert loss.item() == 0
    assert not torch.autograd.grad(loss, users)[0].any()


def test_large_scores_are_finite():
    users, vectors, targets, ids, log_q = given()
    loss = ours(users * 1e4, vectors, targets, ids, log_q)
    assert loss.isfinite()
    assert torch.autograd.grad(loss, users)[0].isfinite().all()
