"""Hashes of training data, which say whether two trainings are the same."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from shortlist.data import HeldOut, Interactions


def fingerprint(part: object) -> str | None:
    """A hash of one part of the training data."""
    if part is None:
        return None
    if isinstance(part, Interactions):
        return part.fingerprint
    if isinstance(part, HeldOut):
        return _digest(part.events.fingerprint.encode(), part.starts, part.cuts, part.stops)
    if isinstance(part, Mapping):
        return _digest(*(f"{name} {fingerprint(part[name])}".encode() for name in sorted(part)))
    if isinstance(part, tuple):
        return _digest(*(str(fingerprint(one)).encode() for one in part))
    if isinstance(part, str | bytes):
        return _digest(part.encode() if isinstance(part, str) else part)
    assert isinstance(part, Tensor), "training data is made of events, held-out users and tensors"
    values = part.detach().cpu().contiguous()
    return _digest(f"{values.dtype} {list(values.shape)}".encode(), values.numpy())


def _digest(*parts: bytes | np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16]
