"""The record of a user: one row of a structured array, the vector first and 29 bytes of facts behind it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.models.sequence.gru_kernel import FP16, FP32, INT8

Floats = NDArray[np.float32]
Records = NDArray[Any]  # of `record_type`

ACTIVE, DIRTY, PRESENT, PROMOTED, INTERIM = 1, 2, 4, 8, 16  # bits of `flags`
NO_ITEM = 2**32 - 1
MOST_STEPS = 2**16 - 1  # larger numbers of steps are stored as this
BEFORE = -1  # last_ts before the first event
FORMATS = {"fp32": FP32, "fp16": FP16, "int8": INT8}
VECTORS = {"fp32": "<f4", "fp16": "<f2", "int8": "i1"}
FACTS = (
    ("last_ts", "<i8"),
    ("last_event_id", "<u8"),
    ("last_item", "<u4"),
    ("count", "<u4"),
    ("steps_since_base", "<u2"),
    ("model_version", "<u2"),
    ("flags", "u1"),
)


def record_type(width: int, storage: str) -> np.dtype[np.void]:
    """The type of a record, without gaps; zeros at the end make its size a multiple of 8 bytes.

    They are a column, because numpy leaves the bytes of a gap as they are: equal records would differ in them.
    """
    parts: list[tuple[str, Any]] = [("vector", (VECTORS[storage], (width,)))]
    parts += [("scale", "<f4")] if storage == "int8" else []
    parts += FACTS
    size = sum(np.dtype(kind).itemsize for _, kind in parts)
    return np.dtype([*parts, ("zeros", ("u1", (-size % 8,)))] if size % 8 else parts)


def vectors_of(records: Records) -> Floats:
    """The vectors of records [R, D]."""
    stored: Floats = records["vector"].astype(np.float32)
    return stored * records["scale"][:, None] if "scale" in (records.dtype.names or ()) else stored


def set_vectors(records: Records, vectors: Floats, scales: Floats) -> None:
    """Store vectors [R, D] that the kernel has rounded, with the steps of their int8 form [R]."""
    if "scale" in (records.dtype.names or ()):
        steps = np.where(scales > 0, scales, 1)[:, None]
        records["vector"] = np.rint(vectors / steps)
        records["scale"] = scales
    else:
        records["vector"] = vectors
