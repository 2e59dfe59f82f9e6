import pytest
import torch
from hypothesis import given, settings

from shortlist.train.objectives import bce, soft_label, ssm
from tests.train.objectives.cases import Z, central_differences, full, gradient, list_a, lists, row

EXACT = {"abs": 1e-8, "rel": 0}
LOSSES = {
    "soft-label": soft_label,
    "soft-label with temperature": lambda *args: soft_label(*args, label_temperature=2.0),
    "ssm": lambda *args: ssm(*args, relevant_from=3.0),
    "bce": lambda *args: bce(*args, relevant_from=3.0),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(lambda *args: ssm(*args, relevant_from=4), 1.5673021694, id="SSM"),
        pytest.param(lambda *args: bce(*args, relevant_from=4), 0.7077069423, id="BCE"),
        pytest.param(soft_label, 1.6973021694, id="soft label"),
    ],
)
def test_losses_of_list_a(loss, expected):
    """Specification 6, test 11."""
    assert loss(*list_a()).item() == pytest.approx(expected, **EXACT)
    assert loss(*list_a(torch.float32)).item() == pytest.approx(expected, rel=1e-6)


def test_soft_labels_by_temperature_are_a_softmax_of_labels():
    scores, labels, mask = list_a()
    q = torch.softmax(row(Z) / 2.0, 1)
    expected = -(q * torch.log_softmax(scores, 1)).sum(1)
    assert torch.allclose(soft_label(scores, labels, mask, label_temperature=2.0), expected)


def test_relevant_items_do_not_compete_with_each_other():
    scores, labels, mask = row([1.0, 2.0, 0.5]), row([1, 1, 0]), full(row([0, 0, 0]))
    alone = [ssm(row([one, 0.5]), row([1, 0]), full(row([0, 0]))) for one in (1.0, 2.0)]
    assert torch.allclose(ssm(scores, labels, mask), (alone[0] + alone[1]) / 2)


def test_weight_n_counts_an_item_n_times():
    scores, labels, mask = row([1.0, 0.5, -0.5]), row([2, 1, 0]), full(row([0, 0, 0]))
    weight = row([1.0, 1.0, 3.0])
    copies = [row([1.0, 0.5, -0.5, -0.5, -0.5]), row([2, 1, 0, 0, 0])]
    for loss in (soft_label, lambda *args: ssm(*args, relevant_from=2), bce):
        assert torch.allclose(loss(scores, labels, mask, weight), loss(*copies, full(copies[0])))


def test_bce_counts_lists_of_one_kind_and_no_empty_list():
    scores = torch.zeros(2, 2)
    mask = torch.tensor([[True, True], [False, False]])
    losses = bce(scores, torch.zeros(2, 2), mask)
    assert losses.tolist() == [pytest.approx(0.6931472), 0.0]


@pytest.mark.parametrize("loss", list(LOSSES.values())[:3], ids=list(LOSSES)[:3])
def test_list_without_a_pair_has_loss_and_gradient_0(loss):
    scores = torch.tensor([[1.0, 2.0, 3.0]] * 4)
    labels = torch.tensor([[4.0, 4.0, 4.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 4.0]])
    mask = torch.tensor([[True, True, True], [False, True, False], [True, True, True], [False, False, False]])
    weight = mask.float()
    for more in ((), (weight,)):
        assert loss(scores, labels, mask, *more).tolist() == [0, 0, 0, 0]
        grad = gradient(lambda s: loss(s, labels, mask, *more), scores)  # noqa: B023
        assert grad.abs().sum() == 0


@every_loss
def test_gradient_is_that_of_central_differences(loss):
    """Specification 6, test 10, for the losses without weights of pairs."""
    scores, labels, mask = list_a()
    numerical = central_differences(lambda s: loss(s, labels, mask), scores)
    assert torch.allclose(gradient(lambda s: loss(s, labels, mask), scores), numerical, atol=1e-8, rtol=0)


@pytest.mark.parametrize("loss", list(LOSSES.values())[:3], ids=list(LOSSES)[:3])
@given(case=lists())
@settings(max_examples=20, deadline=None)
def test_constant_added_to_all_scores_changes_no_softmax(loss, case):
    scores, labels, mask = case
    assert torch.allclose(loss(scores + 2.5, labels, mask), loss(scores, labels, mask), atol=1e-10)


@every_loss
@given(case=lists(ties=True))
@settings(max_examples=20, deadline=None)
def test_permuting_a_list_permutes_the_gradient(loss, case):
    scores, labels, mask = case
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(1))
    moved = gradient(lambda s: loss(s, labels[:, order], mask[:, order]), scores[:, order])
    assert torch.allclose(gradient(lambda s: loss(s, labels, mask), scores)[:, order], moved, atol=1e-10)


@every_loss
@given(case=lists())
@settings(max_examples=20, deadline=None)
def test_padding_anywhere_is_as_a_shorter_list(loss, case):
    scores, labels, mask = case
    poisoned = scores.masked_fill(~mask, torch.nan)
    weight = mask.double()
    found = loss(poisoned, labels.masked_fill(~mask, 99.0), mask, weight)
    grad = gradient(lambda s: loss(s, labels, mask, weight), poisoned)
    assert torch.isfinite(grad).all()
    assert grad[~mask].abs().sum() == 0
    for at, valid in enumerate(mask):
        own = scores[at][valid][None]
        assert torch.allclose(loss(own, labels[at][valid][None], full(own))[0], found[at], atol=1e-10)
