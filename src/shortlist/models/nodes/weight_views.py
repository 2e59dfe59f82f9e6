"""Weights of an attention scorer as numpy views for the CPU kernel: no copies, so they are never stale."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from shortlist.models.nodes.cpu_kernel import BATCH_NORM, LAYER_NORM, NO_NORM, Layer, Unit
from shortlist.models.nodes.mlp import Layers
from shortlist.models.nodes.scorer import PReLU


class WeightViews(NamedTuple):
    """The weights of a scorer that the kernel needs besides its tables."""

    owners: list[dict[str, Any]]  # parameter and buffer dictionaries of the modules
    addresses: list[int]  # data pointers when the views were made
    unit: Unit
    layers: tuple[Layer, ...]

    def current(self) -> bool:
        """Whether all weights are still at the same addresses."""
        return self.addresses == _addresses(self.owners)


def weight_views(
    linear1: nn.Linear, act1: PReLU, linear2: nn.Linear, act2: PReLU, layers: Layers
) -> WeightViews:
    """Views of the weights of a scorer."""
    owners = _owners((linear1, act1, linear2, act2, *layers.modules()))
    weights = (linear1.weight, linear1.bias, act1.slope, linear2.weight, linear2.bias, act2.slope)
    hidden = zip(layers.linear, layers.norm, layers.act, strict=True)
    steps = [*hidden, (layers.out, layers.out_norm, layers.out_act)]
    unit = Unit(*map(array, weights))
    return WeightViews(owners, _addresses(owners), unit, tuple(_layer(*step) for step in steps))


def array(tensor: Tensor) -> Any:
    """A tensor as a numpy array without a copy."""
    return tensor.detach().numpy()


def _owners(modules: tuple[nn.Module, ...]) -> list[dict[str, Any]]:
    owners = [owner for module in modules for owner in (module._parameters, module._buffers)]
    return [owner for owner in owners if owner]


def _addresses(owners: list[dict[str, Any]]) -> list[int]:
    return [weight.data_ptr() for owner in owners for weight in owner.values() if weight is not None]


def _layer(linear: nn.Module, norm: nn.Module, act: nn.Module) -> Layer:
    assert isinstance(linear, nn.Linear)
    zeros, ones = torch.zeros(linear.out_features), torch.ones(linear.out_features)
    bias = zeros if linear.bias is None else linear.bias
    slope = act.slope if isinstance(act, PReLU) else torch.ones(1)
    scale, shift, mean, variance = ones, zeros, zeros, ones
    kind, epsilon = NO_NORM, 0.0
    if isinstance(norm, nn.LayerNorm):
        kind, epsilon, scale, shift = LAYER_NORM, norm.eps, norm.weight, norm.bias
    if isinstance(norm, nn.BatchNorm1d):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        kind, epsilon, scale, shift = BATCH_NORM, norm.eps, norm.weight, norm.bias
        mean, variance = norm.running_mean, norm.running_var
    parts = (array(part) for part in (scale, shift, mean, variance, slope))
    return Layer(array(linear.weight), array(bias), kind, epsilon, *parts)
