"""Times of any unit, converted to milliseconds since 1970."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import one_chunk
from shortlist.errors import ConfigError, DataError

PER_SECOND: Mapping[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
UNITS = tuple(PER_SECOND)
NAMES: Mapping[str, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# A number above the first limit would be after the year 5000 in seconds, so it is in milliseconds; and so on.
LIMITS = np.array([1e11, 1e14, 1e17])
EPOCH = 1e8  # seconds; a log whose median is later (early 1973) counts from 1970
APART = 5  # a truncated digit divides a time by ten; no valid time is this far from the median


def milliseconds(column: pa.ChunkedArray, unit: str, locate: Callable[[int], str]) -> NDArray[np.int64]:
    """Convert numbers or dates to milliseconds; `unit` is auto, s, ms, us or ns, the same on all rows."""
    if unit != "auto" and unit not in PER_SECOND:
        raise ConfigError(f"unit: expected auto, {', '.join(PER_SECOND)}, got {unit!r}")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return _numpy(pc.cast(pc.cast(column, pa.timestamp("ms"), safe=False), pa.int64()))
    values = _numpy(column)
    found = _unit(values, locate)
    if unit != "auto" and UNITS.index(found) > UNITS.index(unit):
        raise DataError(
            f"{locate(0)}: expected times in {NAMES[unit]}, got {values[0]:.16g}, which looks like "
            f"{NAMES[found]}; set the unit"
        )
    _check_near(values, found if unit == "auto" else unit, locate)
    return _scaled(values, found if unit == "auto" else unit)


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    values: NDArray[Any] = one_chunk(column).to_numpy(zero_copy_only=False)
    return values


def _unit(values: NDArray[Any], locate: Callable[[int], str]) -> str:
    low, high = values.min(initial=0), values.max(initial=0)
    if low >= 0 and _class(values.min(initial=high)) == _class(high):
        return UNITS[int(_class(high))]
    classes = _class(np.abs(values))
    usual = int(np.bincount(classes).argmax())
    odd = np.flatnonzero(classes != usual)
    if len(odd):
        raise DataError(
            f"{locate(int(odd[0]))}: expected a time in {NAMES[UNITS[usual]]} as on the other lines, "
            f"got {values[odd[0]]:.16g}, which looks like {NAMES[UNITS[int(classes[odd[0]])]]}; "
            "use one unit, or fix the line if it is truncated"
        )
    return UNITS[usual]


def _check_near(values: NDArray[Any], unit: str, locate: Callable[[int], str]) -> None:
    """Refuse a time far from the median; no check is needed if the extremes are close."""
    if not len(values) or APART * float(values.min()) >= float(values.max()):
        return
    usual = float(np.median(values.astype(np.float64, copy=False)))
    odd = np.flatnonzero((values < usual / APART) | (values > usual * APART))
    if usual > EPOCH * PER_SECOND[unit] and len(odd):
        raise DataError(
            f"{locate(int(odd[0]))}: expected a time near {usual:.16g} as on the other lines, "
            f"got {values[odd[0]]:.16g}; the line may be truncated or in another unit, fix it"
        )


def _class(values: Any) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(LIMITS, values, side="right"), np.int64)


def _scaled(values: NDArray[Any], unit: str) -> NDArray[np.int64]:
    if np.issubdtype(values.dtype, np.floating):
        return np.rint(values * (1_000 / PER_SECOND[unit])).astype(np.int64)
    integers = values.astype(np.int64, copy=False)
    if unit == "ms":
        return integers
    return integers * 1_000 if unit == "s" else integers // (PER_SECOND[unit] // 1_000)
