"""Results as JSON values: the one place where a typed result becomes plain."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor


def as_json(value: Any) -> Any:
    """The same value in JSON types: a dataclass becomes an object of its fields; NaN and infinity become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(part) for part in value]
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
