"""A module with stored weights, whose sizes are compared before memory is allocated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

M = TypeVar("M", bound=nn.Module)


def with_weights(make: Callable[[], M], weights: Mapping[str, Tensor]) -> M:
    """The module that `make` makes, with these weights, in eval mode; ValueError if they do not fit."""
    with torch.device("meta"), _NoInitialValues():  # shapes without memory
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


class _NoInitialValues(TorchFunctionMode):
    """Functions that would import a compiler on tensors without memory: changes in place do nothing, and `linspace`
    gives a tensor of its size.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            return args[0] if args else named["tensor"]
        if name == "linspace":
            return torch.empty(named["steps"] if "steps" in named else args[2])
        return func(*args, **named)


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool
