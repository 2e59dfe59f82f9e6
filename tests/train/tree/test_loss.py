import math

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.train.tree.loss import binary, level_softmax, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.samplers.sampler import AllSampler

LOSSES = {
    "sampled": lambda x, valid, **more: sampled_softmax(x, torch.zeros_like(x), valid, **more),
    "softmax": level_softmax,
    "binary": binary,
    "hinge": margin,
    "ramp": lambda x, valid, **more: margin(x, valid, phi="ramp", gamma=2.0, **more),
    "logistic": lambda x, valid, **more: margin(x, valid, phi="logistic", **more),
    "top-1": top_k_hinge,
    "top-3": lambda x, valid, **more: top_k_hinge(x, valid, k=3, **more),
    "top-9 own": lambda x, valid, **more: top_k_hinge(x, valid, k=9, self_cost=True, **more),
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def logits(*values):
    return torch.tensor([[values]], dtype=torch.float64)


def everywhere(x):
    return torch.ones_like(x, dtype=torch.bool)


def random_case(seed=0, shape=(4, 3, 6)):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    valid = torch.rand(shape, generator=generator) < 0.7
    valid[:, :, 0] = True
    valid[0, 0, 1:] = False  # a level without negatives
    return x, valid


def test_sampled_softmax_by_hand():
    x = logits(math.log(2.0), math.log(3.0), math.log(6.0))
    logw = torch.tensor([[[0.0, math.log(3.0), math.log(2.0)]]], dtype=torch.float64)
    assert sampled_softmax(x, logw, everywhere(x)).item() == pytest.approx(math.log((2 + 1 + 3) / 2))


def test_level_softmax_by_hand():
    x = logits(math.log(2.0), math.log(3.0), math.log(5.0))
    assert level_softmax(x, everywhere(x)).item() == pytest.approx(math.log(5.0))


def test_binary_by_hand():
    x = logits(0.0, math.log(3.0), -math.log(3.0))  # sigmoids 1/2, 3/4, 1/4
    expected = -math.log(1 / 2) - math.log(1 / 4) - math.log(3 / 4)
    assert binary(x, everywhere(x)).item() == pytest.approx(expected)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    x = logits(math.log(3.0), 0.0)
    assert binary(x, everywhere(x), zero).item() == pytest.approx(math.log(4.0) + math.log(2.0))


@pytest.mark.parametrize("seed", range(3))
def test_binary_is_torch_cross_entropy_with_a_label_for_the_positive(seed):
    x, valid = random_case(seed)
    label = torch.rand(4, 3, dtype=torch.float64)
    target = torch.cat([label[..., None], torch.zeros(4, 3, 5, dtype=torch.float64)], 2)
    each = torch.nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none")
    expected = (each * valid).sum((1, 2)).mean()
    assert torch.allclose(binary(x, valid, label), expected)


@pytest.mark.parametrize(
    ("phi", "gap", "expected"),
    [
        ("hinge", 0.25, 0.75),
        ("hinge", 1.5, 0.0),
        ("hinge", -2.0, 3.0),
        ("ramp", 0.5, 0.75),
        ("ramp", 3.0, 0.0),
        ("ramp", -2.0, 1.0),
        ("logistic", 0.0, 1.0),
        ("logistic", 3.0, math.log2(1 + math.exp(-3.0))),
    ],
)
def test_margin_by_hand(phi, gap, expected):
    x = logits(1.0 + gap, 1.0, -4.0)
    assert margin(x, everywhere(x), phi=phi, gamma=2.0).item() == pytest.approx(expected)


def test_top_k_hinge_gives_the_worked_number_of_the_two_stage_spec():
    x = logits(-0.5, 0.0, 2.0)
    assert top_k_hinge(x, everywhere(x), k=2).item() == pytest.approx(2.5)
    assert top_k_hinge(x, everywhere(x), k=2, self_cost=True).item() == pytest.approx(2.5)
    assert margin(x, everywhere(x)).item() == pytest.approx(3.5)
    nats = level_softmax(x, everywhere(x)).item()
    assert nats / math.log(2.0) == pytest.approx(3.89056, abs=1e-5)


def test_top_k_hinge_counts_the_positive_with_cost_zero_or_one():
    x = logits(3.0, 0.0, -1.0)  # excesses -2, -3 and the positive's own 0 or 1
    assert top_k_hinge(x, everywhere(x), k=1).item() == 0.0
    assert top_k_hinge(x, everywhere(x), k=1, self_cost=True).item() == pytest.approx(1.0)
    x = logits(0.0, 0.5, -2.0)  # excesses 1.5, -1 and 0 or 1
    assert top_k_hinge(x, everywhere(x), k=3).item() == pytest.approx((1.5 - 1.0 + 0.0) / 3)
    assert top_k_hinge(x, everywhere(x), k=3, self_cost=True).item() == pytest.approx((1.5 - 1.0 + 1.0) / 3)
    assert top_k_hinge(x, everywhere(x), k=50).item() == pytest.approx(0.5 / 3)


def test_top_k_hinge_divides_by_the_number_of_valid_nodes():
    x = logits(0.0, 1.0, 9.0)
    valid = torch.tensor([[[True, True, False]]])
    assert top_k_hinge(x, valid, k=3).item() == pytest.approx((2.0 + 0.0) / 2)


def test_top_k_hinge_has_the_stated_sub_gradient():
    x = logits(0.0, 2.0, 1.0, -5.0).requires_grad_()
    top_k_hinge(x, everywhere(x), k=2).backward()
    assert x.grad.flatten().tolist() == [-1.0, 0.5, 0.5, 0.0]


def test_t12_over_all_nodes_value_and_gradient_are_those_of_the_full_softmax():
    shape = TreeShape(37, 3)
    levels = tuple(range(1, shape.height + 1))
    leaves = torch.tensor([0, 20, 36])
    sampled = AllSampler().sample(shape, levels, leaves, torch.Generator())
    tables = [torch.randn(3, shape.sizes[j], dtype=torch.float64, requires_grad=True) for j in levels]
    picked = [table.gather(1, sampled.nodes[:, i]) for i, table in enumerate(tables)]
    loss = sampled_softmax(torch.stack(picked, 1), sampled.logw, sampled.valid)
    expected = sum(
        torch.nn.functional.cross_entropy(table, sampled.nodes[:, i, 0]) for i, table in enumerate(tables)
    )
    assert torch.allclose(loss, expected)
    for mine, theirs in zip(
        torch.autograd.grad(loss, tables), torch.autograd.grad(expected, tables), strict=True
    ):
        assert torch.allclose(mine, theirs, atol=1e-12)


@each_loss
@pytest.mark.parametrize("seed", range(3))
def test_gradients_match_finite_differences(loss, seed):
    x, valid = random_case(seed)
    assert torch.autograd.gradcheck(lambda y: loss(y, valid), (x.requires_grad_(),), atol=1e-6)


@each_loss
def test_invalid_columns_have_no_effect_and_zero_gradient(loss):
    x, valid = random_case(7)
    changed = torch.where(valid, x, 1e4).requires_grad_()
    value = loss(changed, valid)
    value.backward()
    assert (changed.grad[~valid] == 0).all()
    assert torch.isfinite(changed.grad).all()
    assert value.item() == pytest.approx(loss(x, valid).item())


@each_loss
def test_weights_and_reductions_are_over_levels(loss):
    x, valid = random_case(3)
    each = loss(x, valid, reduction="none")
    assert each.shape == (4, 3)
    weight = torch.rand(4, 3, dtype=torch.float64)
    assert torch.allclose(loss(x, valid, weight=weight), (each * weight).sum(1).mean())
    assert torch.allclose(loss(x, valid, weight=weight, reduction="mean"), (each * weight).mean())
    assert torch.allclose(loss(x, valid, weight=weight, reduction="max"), (each * weight).amax(1).mean())


@each_loss
def test_a_higher_positive_never_raises_the_loss(loss):
    x, valid = random_case(5)
    better = x.clone()
    better[:, :, 0] += 0.3
    assert (loss(better, valid, reduction="none") <= loss(x, valid, reduction="none") + 1e-12).all()


@pytest.mark.parametrize("name", ["sampled", "softmax", "hinge", "ramp", "logistic", "top-1", "top-3"])
def test_a_positive_without_negatives_has_zero_loss_and_gradient(name):
    x = torch.full((2, 1, 4), 3.7, requires_grad=True)
    valid = torch.tensor([True, False, False, False]).expand(2, 1, 4)
    value = LOSSES[name](x, valid)
    value.backward()
    assert value.item() == 0.0
    assert (x.grad == 0).all()


def test_half_precision_logits_are_cast_to_float32():
    x = torch.tensor([[[1.0, 2.0]]], dtype=torch.bfloat16)
    assert sampled_softmax(x, torch.zeros(1, 1, 2), everywhere(x)).dtype == torch.float32


def test_unknown_options_are_refused():
    x, valid = random_case()
    with pytest.raises(ConfigError, match="hinge, ramp or logistic"):
        margin(x, valid, phi="square")
    with pytest.raises(ConfigError, match="sum, mean, max or none"):
        level_softmax(x, valid, reduction="median")
    with pytest.raises(ConfigError, match="k must be at least 1"):
        top_k_hinge(x, valid, k=0)
