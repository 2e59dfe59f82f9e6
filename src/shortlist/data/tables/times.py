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
    _check_unit(unit)
    if _is_date(column.type):
        return _numpy(pc.cast(pc.cast(column, pa.timestamp("ms"), safe=False), pa.int64()))
    values = _numpy(column)
    found = _unit(values, locate)
    if unit != "auto" and UNITS.index(found) > UNITS.index(unit):
        raise DataError(
            f"{locate(0)}: expected times in {NAMES[unit]}, got {values[0]:.16g}, which looks like "
            f"{NAMES[found]}; in a table, use --option unit={found}"
        )
    _check_near(values, found if unit == "auto" else unit, locate)
    return _scaled(values, found if unit == "auto" else unit)


def odd_times(column: pa.ChunkedArray, unit: str) -> NDArray[np.bool_] | None:
    """The rows whose time is of another unit than most, or far from the median; None if there are none."""
    _check_unit(unit)
    if _is_date(column.type) or not len(column):
        return None
    values = _numpy(column)
    classes, usual = _classes(values)
    odd = classes != usual
    far = _far(values[~odd], UNITS[usual] if unit == "auto" else unit)
    odd[np.flatnonzero(~odd)[far]] = True
    return odd if odd.any() else None


def _check_unit(unit: str) -> None:
    if unit != "auto" and unit not in PER_SECOND:
        raise ConfigError(f"unit: expected auto, {', '.join(PER_SECOND)}, got {unit!r}")


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    values: NDArray[Any] = one_chunk(column).to_numpy(zero_copy_only=False)
    return values


def _unit(values: NDArray[Any], locate: Callable[[int], str]) -> str:
    low, high = values.min(initial=0), values.max(initial=0)
    if low >= 0 and _class(values.min(initial=high)) == _class(high):
        return UNITS[int(_class(high))]
    classes, usual = _classes(values)
    odd = np.flatnonzero(classes != usual)
    if len(odd):
        raise DataError(
            f"{locate(int(odd[0]))}: expected a time in {NAMES[UNITS[usual]]} as on the other lines, "
            f"got {values[odd[0]]:.16g}, which looks like {NAMES[UNITS[int(classes[odd[0]])]]}; "
            "use one unit, or fix the line if it is truncated, or skip such lines with --bad-lines skip"
        )
    return UNITS[usual]


def _classes(values: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """The unit that every value looks like, and the most frequent one."""
    classes = _class(np.abs(values))
    return classes, int(np.bincount(classes).argmax())


def _check_near(values: NDArray[Any], unit: str, locate: Callable[[int], str]) -> None:
    odd = _far(values, unit)
    if len(odd):
        usual = float(np.median(values.astype(np.float64, copy=False)))
        raise DataError(
            f"{locate(int(odd[0]))}: expected a time near {usual:.16g} as on the other lines, "
            f"got {values[odd[0]]:.16g}; the line may be truncated or in another unit, fix it, "
            "or skip such lines with --bad-lines skip"
        )


def _far(values: NDArray[Any], unit: str) -> NDArray[np.int64]:
    """The rows of times far from the median; no check is needed if the extremes are close."""
    nothing = np.zeros(0, np.int64)
    if not len(values) or APART * float(values.min()) >= float(values.max()):
        return nothing
    usual = float(np.median(values.astype(np.float64, copy=False)))
    odd = np.flatnonzero((values < usual / APART) | (values > usual * APART))
    return odd if usual > EPOCH * PER_SECOND[unit] else nothing


def _class(values: Any) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(LIMITS, values, side="right"), np.int64)


def _scaled(values: NDArray[Any], unit: str) -> NDArray[np.int64]:
    if np.issubdtype(values.dtype, np.floating):
        return np.rint(values * (1_000 / PER_SECOND[unit])).astype(np.int64)
    integers = values.astype(np.int64, copy=False)
    if unit == "ms":
        return integers
    return integers * 1_000 if unit == "s" else integers // (PER_SECOND[unit] // 1_000)
