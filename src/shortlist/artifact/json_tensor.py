"""Plain values as a tensor of bytes, so that they travel in an artifact beside the weights."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import ArtifactError


def spelled(values: Mapping[str, Any]) -> Tensor:
    """Plain values as JSON in bytes [L]."""
    return torch.frombuffer(bytearray(json.dumps(values, sort_keys=True).encode()), dtype=torch.uint8)


def told(tensors: Mapping[str, Tensor], name: str, stage: str) -> dict[str, Any]:
    """The values back from the tensor of this name; whatever is wrong with it is an ArtifactError."""
    if name not in tensors:
        raise ArtifactError(f"{stage}: its tensors lack {name!r}; make the artifact again")
    try:
        values = json.loads(bytes(tensors[name].tolist()))
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(
            f"{stage}: {name!r} is not what a stage wrote ({error}); make the artifact again"
        ) from error
    if not isinstance(values, dict):
        raise ArtifactError(f"{stage}: {name!r} must hold names and values; make the artifact again")
    return values


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
