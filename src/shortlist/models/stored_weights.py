"""A module with stored weights, whose sizes are compared before memory is allocated."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def with_weights(make: Callable[[], M], weights: Mapping[str, Tensor]) -> M:
    """The module that `make` makes, with these weights, in eval mode; ValueError if they do not fit."""
    with torch.device("meta"):  # shapes without memory
        expected = make().state_dict()
    if other := sorted(set(expected) ^ set(weights)):
        raise ValueError(f"{other[0]} is {'missing' if other[0] in expected else 'not expected'}")
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            sizes = f"expected {list(expected[name].shape)}, got {list(tensor.shape)}"
            raise ValueError(f"size mismatch for {name}: {sizes}")
        if _kind(tensor) != _kind(expected[name]):
            raise ValueError(f"{name}: expected {expected[name].dtype}, got {tensor.dtype}")
    module = make()
    module.load_state_dict(dict(weights))
    return module.eval()


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool
