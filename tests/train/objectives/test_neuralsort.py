import math

import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import ConfigError
from shortlist.train.objectives import arf, lcron, neuralsort
from shortlist.train.objectives.neuralsort import (
    EPS,
    arf_terms,
    inclusion,
    label_permutation,
    lcron_terms,
)
from tests.train.objectives.cases import (
    S2,
    S,
    Y,
    Z,
    central_differences,
    full,
    gradient,
    lists,
    row,
    slow_neuralsort,
)

EXACT = {"abs": 1e-8, "rel": 0}
ALL = full(row(S))
STAGES = [row(S), row(S2)]


def close(found, expected, atol=1e-6):
    return torch.allclose(found, row(expected), atol=atol, rtol=0)


def test_neuralsort_of_list_a():
    """Specification 6, test 12."""
    soft = neuralsort(row(S), ALL)
    assert torch.allclose(soft.sum(2), torch.ones(1, 6, dtype=torch.float64))
    assert close(soft.sum(1), (1.089849, 1.068010, 0.772828, 1.159080, 1.152102, 0.758131))
    assert soft.argmax(2).tolist() == row(S).argsort(dim=1, descending=True).tolist() == [[2, 0, 3, 4, 1, 5]]


def test_lcron_of_list_a():
    """Specification 6, test 13."""
    first, second = inclusion(row(S), ALL, 4), inclusion(row(S2), ALL, 2)
    assert close(first.top, (0.951743, 0.418248, 0.998135, 0.867790, 0.618121, 0.035201))
    assert close(second.top, (0.319189, 0.552947, 0.908642, 0.021949, 0.215423, 0.134116))
    assert torch.allclose(first.top + first.below, torch.ones_like(first.top))
    e2e, own = lcron_terms(STAGES, row(Y), ALL, caps=(4, 2))
    assert e2e.item() == pytest.approx(0.8661725279, **EXACT)
    assert own[0].tolist() == pytest.approx([1.7044817580, 0.7560372864], **EXACT)
    assert lcron(STAGES, row(Y), ALL, caps=(4, 2)).item() == pytest.approx(2.0964320502, **EXACT)


def frozen_lcron(at, base):
    """LCRON as a function of the scores of stage `at`, with the column sums of the scores `base`."""
    totals = [neuralsort(one, ALL).sum(1) for one in base]
    y = row(Y)

    def loss(scores):
        stages = [scores if number == at else one for number, one in enumerate(base)]
        soft = [neuralsort(one, ALL) for one in stages]
        tops = [one[:, :cap].sum(1) / total for one, cap, total in zip(soft, (4, 2), totals, strict=True)]
        lows = [one[:, cap:].sum(1) / total for one, cap, total in zip(soft, (4, 2), totals, strict=True)]
        joint = tops[0] * tops[1]

        def bce(high, low):
            return -(y * (high + EPS).log() + (1 - y) * (low + EPS).log()).mean()

        return bce(joint, 1 - joint) + sum(bce(*one) for one in zip(tops, lows, strict=True)) / 2

    return loss


@pytest.mark.parametrize("at", [0, 1])
def test_lcron_gradient_is_that_of_central_differences_with_frozen_column_sums(at):
    """Specification 6, test 14: error below 1e-5."""

    def loss(scores):
        return lcron(
            [scores if number == at else STAGES[number] for number in (0, 1)], row(Y), ALL, caps=(4, 2)
        )

    numerical = central_differences(frozen_lcron(at, STAGES), STAGES[at])
    assert torch.allclose(gradient(loss, STAGES[at]), numerical, atol=1e-5, rtol=0)
    assert numerical.abs().max() > 0.1


def test_arf_of_list_a():
    """Specification 6, test 15."""
    relax, _ = arf_terms(row(S), row(Y), ALL, cap=4)
    assert relax.item() == pytest.approx(0.5903134875, **EXACT)
    _, whole = arf_terms(row(S), row((4, 3, 2, 1, 0.5, 0)), ALL, cap=4)
    assert whole.item() == pytest.approx(0.2891834737, **EXACT)
    total = arf(row(S), row((4, 3, 2, 1, 0.5, 0)), ALL, cap=4, relevant_from=3.0)
    assert total.item() == pytest.approx(0.5903134875 + 0.2891834737 / 2, **EXACT)


def test_arf_gradient_is_that_of_central_differences():
    def loss(scores):
        return arf(scores, row(Z), ALL, cap=4, relevant_from=3.0)

    assert torch.allclose(gradient(loss, row(S)), central_differences(loss, row(S)), atol=1e-8, rtol=0)


def test_small_tau_gives_the_permutation_and_hard_top_sets():
    """Specification 6, test 18, first part."""
    soft = neuralsort(row(S), ALL, tau=1e-4)
    order = row(S).argsort(dim=1, descending=True)
    assert torch.allclose(soft[0], torch.eye(6, dtype=torch.float64)[order[0]])
    assert inclusion(row(S), ALL, 4, tau=1e-4).top.tolist() == [[1, 0, 1, 1, 1, 0]]


def top(scores, cap, among):
    return set(sorted(among, key=lambda item: -scores[item])[:cap])


def test_small_tau_counts_relevant_items_outside_the_intersection_of_top_sets():
    """Specification 6, test 18, second part: over relevant items, L_e2e counts those outside the intersection.

    Over other items it counts those inside. Both counts are in units of -log(eps) / n.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        stages = [torch.rand(1, 9, generator=generator, dtype=torch.float64) for _ in range(2)]
        relevant = torch.rand(1, 9, generator=generator) < 0.4
        one, two = (each[0].tolist() for each in stages)
        inside = top(one, 6, range(9)) & top(two, 4, range(9))
        truth = set(relevant[0].nonzero().flatten().tolist())
        misses = len(truth - top(two, 4, top(one, 6, range(9))))
        e2e, _ = lcron_terms(stages, relevant.double(), full(stages[0]), caps=(6, 4), tau=1e-6)
        counted = e2e.item() * 9 / -math.log(EPS)
        assert counted == pytest.approx(len(truth - inside) + len(inside - truth), abs=1e-5)
        assert len(truth - inside) >= misses


@given(lists())
@settings(max_examples=30, deadline=None)
def test_neuralsort_of_valid_items_is_that_of_the_shorter_list(case):
    scores, _, mask = case
    soft = neuralsort(scores.masked_fill(~mask, torch.nan), mask, 0.7)
    for at, valid in enumerate(mask):
        n = int(valid.sum())
        expected = torch.tensor(slow_neuralsort(scores[at][valid].tolist(), 0.7), dtype=torch.float64)
        assert torch.allclose(soft[at][:n, valid], expected.reshape(n, n), atol=1e-10)
        assert soft[at].sum().item() == pytest.approx(n)


def joint(scores, labels, mask, **more):
    return lcron([scores, -0.5 * scores], labels, mask, caps=(4, 2), relevant_from=3.0, **more)


def single(scores, labels, mask, **more):
    return arf(scores, labels, mask, cap=3, relevant_from=3.0, **more)


both = pytest.mark.parametrize("loss", [joint, single])


@both
@given(case=lists())
@settings(max_examples=20, deadline=None)
def test_padding_anywhere_is_as_a_shorter_list(loss, case):
    scores, labels, mask = case
    poisoned = scores.masked_fill(~mask, torch.nan)
    found = loss(poisoned, labels.masked_fill(~mask, 99.0), mask)
    grad = gradient(lambda s: loss(s, labels, mask), poisoned)
    assert torch.isfinite(grad).all()
    assert grad[~mask].abs().sum() == 0
    for at, valid in enumerate(mask):
        own = scores[at][valid][None]
        assert torch.allclose(loss(own, labels[at][valid][None], full(own))[0], found[at], atol=1e-10)


@both
@given(case=lists())
@settings(max_examples=20, deadline=None)
def test_permuting_a_list_permutes_the_gradient_and_a_constant_changes_nothing(loss, case):
    scores, labels, mask = case
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(1))
    moved = gradient(lambda s: loss(s, labels[:, order], mask[:, order]), scores[:, order])
    assert torch.allclose(gradient(lambda s: loss(s, labels, mask), scores)[:, order], moved, atol=1e-9)
    assert torch.allclose(loss(scores + 1.5, labels, mask), loss(scores, labels, mask), atol=1e-8)


@both
def test_list_without_a_relevant_and_another_item_has_loss_and_gradient_0(loss):
    scores = torch.tensor([[1.0, 2.0, 3.0]] * 3)
    labels = torch.tensor([[4.0, 4.0, 3.0], [1.0, 4.0, 0.0], [1.0, 2.0, 0.0]])
    mask = torch.tensor([[True, True, True], [False, True, False], [True, True, True]])
    log_a = torch.zeros(2 if loss is joint else (), requires_grad=True)
    losses = loss(scores, labels, mask, log_a=log_a)
    assert losses.tolist() == [0, 0, 0]
    assert gradient(lambda s: loss(s, labels, mask), scores).abs().sum() == 0
    losses.sum().backward()
    assert log_a.grad.abs().sum() == 0


def test_learned_a_is_exp_of_its_parameter_and_its_best_value_is_the_root_of_the_loss():
    _, own = lcron_terms(STAGES, row(Y), ALL, caps=(4, 2))
    best = own[0].log() / 2  # d/db (L exp(-2b) / 2 + b) = 0 at exp(2b) = L
    grad = gradient(lambda b: lcron(STAGES, row(Y), ALL, caps=(4, 2), log_a=b), best)
    assert grad.abs().max() < 1e-12


def test_equal_labels_share_their_rows_evenly():
    shared = label_permutation(row([1, 3, 1, 0]), torch.tensor([[True, True, True, False]]), torch.float64)[0]
    assert shared.tolist() == [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 0]]


def test_weight_n_counts_the_cross_entropy_of_an_item_n_times():
    weight = row([1.0, 1.0, 1.0, 1.0, 1.0, 4.0])
    terms = [lcron_terms(STAGES, row(Y), ALL, one, caps=(4, 2))[0].item() for one in (None, weight)]
    top = inclusion(row(S), ALL, 4).top * inclusion(row(S2), ALL, 2).top
    last = -math.log(1 - top[0, 5].item() + EPS)
    assert terms[1] * 9 == pytest.approx(terms[0] * 6 + 3 * last)


def test_weight_n_counts_the_column_of_an_item_n_times_in_arf():
    weight = row([1.0, 1.0, 1.0, 1.0, 1.0, 4.0])
    plain, weighted = (
        arf_terms(row(S), row((4, 3, 2, 1, 0.5, 0)), ALL, one, cap=4)[1].item() for one in (None, weight)
    )
    last = -math.log(neuralsort(row(S), ALL)[0, 5, 5].item() + EPS)
    assert weighted * 6 * 9 == pytest.approx(plain * 36 + 3 * last)


def test_list_shorter_than_its_capacity_passes_whole():
    one = inclusion(row(S), ALL, 9)
    assert torch.allclose(one.top, torch.ones_like(one.top))
    assert one.below.abs().max() == 0


def test_arf_of_a_list_shorter_than_its_capacity_averages_all_rows():
    wide = arf_terms(row(S), row(Y), ALL, cap=9)[0]
    assert torch.allclose(wide, arf_terms(row(S), row(Y), ALL, cap=6)[0])


def test_float32_lists_of_40_have_finite_gradients():
    generator = torch.Generator().manual_seed(0)
    scores = [50 * torch.randn(8, 40, generator=generator) for _ in range(2)]
    labels = (torch.rand(8, 40, generator=generator) < 0.25).float()
    mask = full(labels)
    losses = lcron(scores, labels, mask, caps=(30, 20), tau=50.0)
    grad = gradient(lambda s: lcron([s, scores[1]], labels, mask, caps=(30, 20), tau=0.01), scores[0])
    assert losses.dtype == torch.float32
    assert torch.isfinite(losses).all()
    assert torch.isfinite(grad).all()


def test_wrong_capacities_are_refused():
    with pytest.raises(ConfigError, match="got 2 stages and 1 capacities"):
        lcron(STAGES, row(Y), ALL, caps=(4,))
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        lcron(STAGES, row(Y), ALL, caps=(4, 0))
