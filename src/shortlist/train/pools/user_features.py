"""Numbers from a table of users."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_VALUES = 32  # values of a text column that get a column of their own, the most frequent ones


def user_features(table: pa.Table | None) -> Tensor:
    """Standardised numbers, and 0 or 1 for the frequent values of texts [U, G]; unknown values are at the mean."""
    columns = [] if table is None else [_numbers(table[name]) for name in table.column_names]
    wide = [one for one in columns if one is not None]
    if table is None or not wide:
        return torch.zeros(0, 0)
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(wide, axis=1), dtype=np.float32))


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _standardised(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)[:, None])
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
    return _frequent(column) if pa.types.is_string(column.type) else None


def _frequent(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    texts = np.array([one or "" for one in column.to_pylist()], dtype=object)
    values, counts = np.unique(texts.astype(str), return_counts=True)
    shown = [one for one in values[np.argsort(-counts, kind="stable")] if one][:MOST_VALUES]
    return _standardised(np.stack([texts == one for one in shown], axis=1)) if shown else None


def _standardised(values: NDArray[np.generic]) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    count = known.sum(0).clip(min=1)
    centred = np.where(known, numbers - np.where(known, numbers, 0).sum(0) / count, 0.0)
    deviation = np.sqrt((centred**2).sum(0) / count)
    return centred / np.where(deviation > 0, deviation, 1.0)
