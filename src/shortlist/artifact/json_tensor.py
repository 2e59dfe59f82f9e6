"""Plain values as a tensor of JSON bytes, so that they are stored in an artifact next to the weights."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import ArtifactError


def json_to_tensor(values: Mapping[str, Any]) -> Tensor:
    """Plain values as JSON bytes [L]."""
    return torch.frombuffer(bytearray(json.dumps(values, sort_keys=True).encode()), dtype=torch.uint8)


def json_from_tensor(tensors: Mapping[str, Tensor], name: str, owner: str) -> dict[str, Any]:
    """The values stored in the tensor called `name`; ArtifactError if it is missing or damaged."""
    if name not in tensors:
        raise ArtifactError(f"{owner}: tensor {name!r} is missing; make the artifact again")
    try:
        values = json.loads(bytes(tensors[name].tolist()))
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{owner}: {name!r} is not JSON ({error}); make the artifact again") from error
    if not isinstance(values, dict):
        raise ArtifactError(
            f"{owner}: {name!r} must be a JSON object, got {values!r}; make the artifact again"
        )
    return values


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, each name after `prefix`."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
