"""Offers: what the loss estimates, its candidates and their corrections."""

import math

import pytest
import torch

from shortlist.train.loop.offers import (
    batch_offer_loss,
    largest_share,
    log_expected,
    mixed_negatives,
    offer_softmax_loss,
)

P = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
UNIFORM = torch.full((3,), 1 / 3, dtype=torch.float64)
OTHER = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


@pytest.mark.parametrize(("negatives", "loss"), [(9, 2.302585), (499, 6.214608)])
def test_zero_tables_have_no_gradient_and_the_loss_of_a_random_choice(negatives, loss):
    """Spec test 12: zero vectors are a stationary point, with the loss log |O|."""
    users, items = torch.zeros(4, 8, requires_grad=True), torch.zeros(4, 8, requires_grad=True)
    others = torch.zeros(4, negatives, 8, requires_grad=True)
    found = offer_softmax_loss(users, items, others)
    found.backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert found.item() == pytest.approx(math.log(negatives + 1), abs=1e-6)
    for one in (users, items, others):
        assert torch.equal(one.grad, torch.zeros_like(one))


def test_zero_tables_have_no_gradient_in_the_loss_of_a_batch():
    """Spec test 12 for offers that a batch shares: 5 positives and 95 other items are 100 candidates."""
    users, items = torch.zeros(5, 8, requires_grad=True), torch.zeros(100, 8, requires_grad=True)
    loss = batch_offer_loss(users, torch.arange(5), items, torch.arange(100))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(100), abs=1e-6)
    assert not users.grad.any()
    assert not items.grad.any()


def test_a_constant_added_to_all_scores_of_a_user_changes_nothing():
    """Spec test 13: the constant is a coordinate that all items have."""
    torch.manual_seed(0)
    users, items, others = torch.randn(6, 4), torch.randn(6, 4), torch.randn(6, 9, 4)
    constant = 10 * torch.randn(6, 1)
    one = offer_softmax_loss(users, items, others)
    two = offer_softmax_loss(
        torch.cat([users, constant], 1),
        torch.cat([items, torch.ones(6, 1)], 1),
        torch.cat([others, torch.ones(6, 9, 1)], 2),
    )
    assert two.item() == pytest.approx(one.item(), abs=1e-6)


def optimum(q: torch.Tensor, corrected: bool) -> torch.Tensor:
    """softmax of the scores that minimise the expected loss of one user with one negative from q."""
    user = torch.ones(9, 1, dtype=torch.float64)
    items = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    positive, negative = torch.arange(3).repeat_interleave(3), torch.arange(3).repeat(3)
    corrections = (q.log()[positive], q.log()[negative][:, None]) if corrected else (None, None)
    optimizer = torch.optim.LBFGS([items], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = offer_softmax_loss(
            user, items[positive], items[negative][:, None], *corrections, weights=P[positive] * q[negative]
        )
        value.backward()
        return value

    optimizer.step(loss)
    return items.detach()[:, 0].softmax(0)


@pytest.mark.parametrize(
    ("q", "corrected", "expected"),
    [
        (UNIFORM, False, (0.7, 0.2, 0.1)),
        (P, False, (1 / 3, 1 / 3, 1 / 3)),
        (OTHER, False, (0.545455, 0.259740, 0.194805)),
        (OTHER, True, (0.7, 0.2, 0.1)),
        (P, True, (0.7, 0.2, 0.1)),
        (UNIFORM, True, (0.7, 0.2, 0.1)),
    ],
    ids=["uniform", "popularity", "other", "other-corrected", "popularity-corrected", "uniform-corrected"],
)
def test_optimum_of_three_items_and_one_negative(q, corrected, expected):
    """Spec test 14, section 1.1: the optimum is log p - log q without correction and log p with it."""
    assert optimum(q, corrected).tolist() == pytest.approx(expected, abs=1e-4)


def test_corrected_batches_of_popular_items_estimate_the_probabilities():
    """In-batch and uniform negatives together, over many batches: scores of one user are near log p."""
    torch.manual_seed(0)
    p = 1 / (torch.arange(40, dtype=torch.float64) + 4)
    p /= p.sum()  # 0.095 to 0.009
    found = {corrected: estimate(p, corrected) for corrected in (True, False)}
    assert (found[True] / p).log().abs().max() < 0.25  # masked hits move the most popular items a little
    q = (p + 0.5 / 40) / 1.5  # shares of the candidates
    lift = (p / q) / (p / q).sum()
    assert (found[False] / lift).log().abs().max() < 0.25


def estimate(p: torch.Tensor, corrected: bool) -> torch.Tensor:
    """softmax of the scores of one user, trained on batches of 64 events with 32 uniform items; the mean of steps."""
    scores = torch.zeros(len(p), 1, dtype=torch.float64, requires_grad=True)
    optimizer, kept = torch.optim.SGD([scores], lr=2.0), torch.zeros(len(p), dtype=torch.float64)
    for step in range(900):
        batch = torch.multinomial(p, 64, replacement=True)
        ids, log_q = mixed_negatives(batch, 32, 10_000 * p, 10_000)
        optimizer.zero_grad()
        user = torch.ones(64, 1, dtype=torch.float64)
        batch_offer_loss(user, batch, scores, ids, log_q if corrected else None).backward()
        optimizer.step()
        kept += scores.detach()[:, 0] * (step >= 300)
    return (kept / 600).softmax(0)


def test_candidates_are_the_positives_and_uniform_items_with_their_expected_counts():
    counts = torch.tensor([6, 3, 1, 0])
    batch = torch.tensor([0, 0, 1])
    ids, log_q = mixed_negatives(batch, 5, counts, 10, torch.Generator().manual_seed(0))
    assert ids[:3].tolist() == batch.tolist()
    assert len(ids) == len(log_q) == 8
    assert int(ids.max()) < 4
    expected = 3 * counts[ids] / 10 + 5 / 4
    assert torch.allclose(log_q, expected.log())


def test_the_same_generator_gives_the_same_candidates():
    batch, counts = torch.tensor([1, 2]), torch.ones(50)
    one, two, three = (
        mixed_negatives(batch, 20, counts, 50, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_a_positive_that_was_not_counted_yet_has_a_finite_correction():
    """Counts may be a running estimate that does not know an item of the batch."""
    found = log_expected(torch.tensor([0, 1]), 4, 0, torch.tensor([0, 9]), 9)
    assert found.isfinite().all()


def test_largest_share_of_an_item_among_the_candidates():
    counts = torch.tensor([50, 30, 20])
    assert largest_share(100, 0, counts, 100) == pytest.approx(0.5)
    assert largest_share(100, 300, counts, 100) == pytest.approx((50 + 100) / 400)
    assert largest_share(10, 0, torch.tensor([]), 0) == 0.0


def plain(users, targets, items, ids, log_q=None, weights=None, hidden=None):
    """The same loss with every copy of a candidate scored on its own; hits of the positive are masked."""
    hits = ids[None, :] == targets[:, None]
    hits = hits if hidden is None else hits | hidden(ids)
    own = None if log_q is None else log_q[: len(targets)]
    return offer_softmax_loss(users, items[targets], items[ids], own, log_q, hits, weights)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_loss_of_a_batch_equals_the_plain_formula_with_its_gradients(corrected, weighted, masked):
    """Candidates occur several times; the positive counts once."""
    torch.manual_seed(0)
    targets = torch.tensor([3, 3, 0, 7, 1])
    ids = torch.cat([targets, torch.tensor([2, 2, 3, 9, 0, 5])])
    users, items = torch.randn(5, 6, requires_grad=True), torch.randn(10, 6, requires_grad=True)
    log_q = torch.randn(10)[ids] if corrected else None  # the same for all copies of an item
    weights = torch.tensor([1.0, 0.0, 2.0, 0.5, 1.5]) if weighted else None
    left_out = torch.rand(5, 10) < 0.4
    hidden = (lambda rows: left_out[:, rows]) if masked else None
    expected = plain(users, targets, items, ids, log_q, weights, hidden)
    gradients = torch.autograd.grad(expected, [users, items])
    for vectors in (items, lambda rows: items[rows]):
        loss = batch_offer_loss(users, targets, vectors, ids, log_q, weights, hidden)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        for one, two in zip(torch.autograd.grad(loss, [users, items]), gradients, strict=True):
            assert torch.allclose(one, two, atol=1e-6)
