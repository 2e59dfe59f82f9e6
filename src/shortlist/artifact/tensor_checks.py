"""Checks of tensors from a file, before anything indexes with them or allocates memory by them."""

import torch
from torch import Tensor

from shortlist.errors import ArtifactError


def check_shape(name: str, tensor: Tensor, *shape: int | None) -> None:
    """Refuse a tensor of another shape; None stands for any size."""
    fits = len(shape) == tensor.dim() and all(
        want in (None, size) for want, size in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        expected = ["any" if size is None else size for size in shape]
        raise ArtifactError(f"tensor {name!r}: expected the shape {expected}, got {list(tensor.shape)}")


def check_whole(name: str, tensor: Tensor, least: int, below: int) -> None:
    """Refuse values that are not integers of 64 bits from `least` to `below` - 1."""
    if tensor.dtype != torch.int64:
        raise ArtifactError(f"tensor {name!r}: expected integers of 64 bits, got {tensor.dtype}")
    if not tensor.numel():
        return
    low, high = int(tensor.min()), int(tensor.max())
    if low < least or high >= below:
        raise ArtifactError(
            f"tensor {name!r}: expected values from {least} to {below - 1}, got {low} to {high}"
        )


def check_distinct(name: str, tensor: Tensor) -> None:
    """Refuse repeated values."""
    if len(torch.unique(tensor)) != tensor.numel():
        raise ArtifactError(f"tensor {name!r}: expected every value once, got repeated ones")


def check_floats(name: str, tensor: Tensor) -> None:
    """Refuse values that are not floats of 32 bits; the store has checked that they are finite."""
    if tensor.dtype != torch.float32:
        raise ArtifactError(f"tensor {name!r}: expected floats of 32 bits, got {tensor.dtype}")


def check_starts(name: str, tensor: Tensor, count: int, total: int) -> None:
    """Refuse anything but `count` + 1 ascending positions from 0 to `total`."""
    check_shape(name, tensor, count + 1)
    check_whole(name, tensor, 0, total + 1)
    if int(tensor[0]) != 0 or int(tensor[-1]) != total or bool((tensor.diff() < 0).any()):
        raise ArtifactError(f"tensor {name!r}: expected ascending positions from 0 to {total}")
