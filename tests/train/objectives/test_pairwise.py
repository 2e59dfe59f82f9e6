import pytest
import torch
from hypothesis import given, settings
from torch.nn.functional import softplus

from shortlist.train.objectives import bpr, lambdaloss, lambdarank, margin, ranknet
from shortlist.train.objectives.ndcg import lambdaloss_weights, lambdarank_weights
from tests.train.objectives.cases import (
    S,
    Z,
    central_differences,
    full,
    gradient,
    list_a,
    lists,
    row,
    slow_pairs,
)

EXACT = {"abs": 1e-8, "rel": 0}
LOSSES = {
    "ranknet": ranknet,
    "lambdarank": lambdarank,
    "lambdarank linear": lambda *args, **more: lambdarank(*args, gain="linear", **more),
    "lambdarank truncated": lambda *args, **more: lambdarank(*args, truncation=2, **more),
    "loss2": lambda *args, **more: lambdaloss(*args, kind="loss2", **more),
    "loss2++": lambdaloss,
    "mixed": lambda *args, **more: lambdaloss(*args, kind="mixed", **more),
    "margin": margin,
    "margin weighted": lambda *args, **more: margin(*args, ndcg_weights=True, **more),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def test_ranknet_of_list_a():
    """Specification 6, test 1."""
    scores, labels, mask = list_a()
    assert ranknet(scores, labels, mask).item() == pytest.approx(7.8962305972, **EXACT)
    assert ranknet(scores, labels, mask, reduction="mean").item() == pytest.approx(7.8962305972 / 14, **EXACT)
    expected = row([-1.96440375, -1.91903140, 0.67102754, 0.76471506, 1.62187357, 0.82581898])
    assert torch.allclose(gradient(lambda s: ranknet(s, labels, mask), scores), expected, atol=1e-8, rtol=0)


def test_lambdarank_of_list_a():
    """Specification 6, test 2."""
    scores, labels, mask = list_a()
    assert lambdarank(scores, labels, mask).item() == pytest.approx(0.6690693291, **EXACT)
    expected = row([-0.28648462, -0.08875773, 0.16958994, 0.07116885, 0.08392542, 0.05055814])
    assert torch.allclose(
        gradient(lambda s: lambdarank(s, labels, mask), scores), expected, atol=1e-8, rtol=0
    )


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(LOSSES["lambdarank linear"], 0.5058968800, id="test 3"),
        pytest.param(LOSSES["loss2"], 0.6154353652, id="test 4"),
        pytest.param(lambda *args: lambdaloss(*args, kind="loss2++", mu=10.0), 6.8234229812, id="test 5"),
        pytest.param(LOSSES["lambdarank truncated"], 1.3393415224, id="test 6"),
        pytest.param(lambda *args: bpr(*args, relevant_from=4), 0.5301784329, id="test 11, BPR"),
        pytest.param(lambda *args: margin(*args, margin=0.5), 4.9, id="test 11, margin"),
    ],
)
def test_losses_of_list_a(loss, expected):
    """Specification 6, tests 3 to 6 and 11."""
    assert loss(*list_a()).item() == pytest.approx(expected, **EXACT)
    assert loss(*list_a(torch.float32)).item() == pytest.approx(expected, rel=1e-6)


@every_loss
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradient_sums_to_0_and_a_constant_changes_nothing(loss, reduction):
    """Specification 6, test 9."""
    scores, labels, mask = list_a()
    grad = gradient(lambda s: loss(s, labels, mask, reduction=reduction), scores)
    assert abs(grad.sum().item()) < 1e-12
    shifted = loss(scores + 3.7, labels, mask, reduction=reduction)
    assert torch.allclose(shifted, loss(scores, labels, mask, reduction=reduction), atol=1e-12, rtol=0)


def frozen(weights):
    """The logistic loss with fixed weights of pairs, over pairs one by one."""

    def loss(scores):
        own = scores[0]
        return sum(weights[i, j] * softplus(own[j] - own[i]) for i, j in slow_pairs(list(Z)))

    return loss


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        pytest.param(LOSSES["ranknet"], lambda *_: torch.ones(1, 6, 6), id="ranknet"),
        pytest.param(LOSSES["lambdarank"], lambdarank_weights, id="lambdarank"),
        pytest.param(
            LOSSES["lambdarank truncated"],
            lambda *args: lambdarank_weights(*args, truncation=2),
            id="truncated",
        ),
        pytest.param(LOSSES["loss2"], lambda *args: lambdaloss_weights(*args, "loss2"), id="loss2"),
        pytest.param(LOSSES["loss2++"], lambdaloss_weights, id="loss2++"),
        pytest.param(LOSSES["mixed"], lambda *args: lambdaloss_weights(*args, "mixed"), id="mixed"),
    ],
)
def test_gradient_is_that_of_central_differences_with_frozen_weights(loss, weights):
    """Specification 6, test 10: error below 1e-8."""
    scores, labels, mask = list_a()
    numerical = central_differences(frozen(weights(scores, labels, mask)[0]), scores)
    assert torch.allclose(gradient(lambda s: loss(s, labels, mask), scores), numerical, atol=1e-8, rtol=0)


def test_margin_gradient_is_that_of_central_differences():
    scores, labels, mask = list_a()
    scores = scores.detach() + torch.tensor([0.0, 0.013, 0.029, 0.041, 0.057, 0.071])  # away from the kinks
    numerical = central_differences(lambda s: margin(s, labels, mask), scores)
    assert torch.allclose(gradient(lambda s: margin(s, labels, mask), scores), numerical, atol=1e-8, rtol=0)


@every_loss
@given(case=lists())
@settings(max_examples=15, deadline=None)
def test_permuting_a_list_permutes_the_gradient(loss, case):
    scores, labels, mask = case
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(1))
    moved = gradient(lambda s: loss(s, labels[:, order], mask[:, order]), scores[:, order])
    whole = gradient(lambda s: loss(s, labels, mask), scores)
    assert torch.allclose(whole[:, order], moved, atol=1e-10)


@given(case=lists(ties=True))
@settings(max_examples=15, deadline=None)
def test_permuting_a_list_with_ids_permutes_the_gradient_of_equal_scores(case):
    scores, labels, mask = case
    ids = torch.arange(scores.shape[1]).expand(scores.shape)
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(2))
    moved = gradient(
        lambda s: lambdarank(s, labels[:, order], mask[:, order], ids=ids[:, order]), scores[:, order]
    )
    whole = gradient(lambda s: lambdarank(s, labels, mask, ids=ids), scores)
    assert torch.allclose(whole[:, order], moved, atol=1e-10)


@every_loss
@given(case=lists())
@settings(max_examples=15, deadline=None)
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


@every_loss
def test_list_without_a_pair_has_loss_and_gradient_0(loss):
    scores = torch.tensor([[1.0, 2.0, 3.0]] * 3)
    labels = torch.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    for reduction in ("sum", "mean"):
        assert loss(scores, labels, mask, reduction=reduction).tolist() == [0, 0, 0]
        grad = gradient(lambda s: loss(s, labels, mask, reduction=reduction), scores)  # noqa: B023
        assert grad.abs().sum() == 0


def test_weight_of_a_pair_is_the_product_of_its_items_weights():
    scores, labels, mask = list_a()
    weight = row([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    own = [
        (weight[0, i] * weight[0, j], softplus(scores[0, j] - scores[0, i])) for i, j in slow_pairs(list(Z))
    ]
    total = sum(one * loss for one, loss in own)
    assert torch.allclose(ranknet(scores, labels, mask, weight)[0], total)
    mean = ranknet(scores, labels, mask, weight, reduction="mean")[0]
    assert torch.allclose(mean, total / sum(one for one, _ in own))


def test_sigma_scales_score_differences():
    scores, labels, mask = list_a()
    assert torch.allclose(ranknet(scores, labels, mask, sigma=2.0), ranknet(2 * scores, labels, mask))


def test_bpr_is_ranknet_on_binary_labels_per_pair():
    scores, mask = row(S), full(row(S))
    twice = bpr(scores, row([1, 0, 1, 0, 0, 0]), mask)
    pairs = [softplus(scores[0, j] - scores[0, i]) for i in (0, 2) for j in (1, 3, 4, 5)]
    assert torch.allclose(twice[0], torch.stack(pairs).mean())
