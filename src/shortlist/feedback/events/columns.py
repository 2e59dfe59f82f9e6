"""Columns of feedback events: the types of the log, and the rows that are no events."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.feedback.record import Array
from shortlist.feedback.schema import EVENTS, INT64, as_id

CLOCK_MS = 5 * 60_000  # how far the clock of a client may be ahead
EARLIEST, LATEST = 0, 1 << 42  # times in milliseconds, 1970 to 2109
COLUMNS = ("request_id", "item_id", "event", "event_ts_ms", "value", "ingest_ts_ms")
EXPECTED = {
    "bad_ids": "expected a whole number as request_id and an item_id",
    "unknown_events": f"expected one of {', '.join(EVENTS)}",
    "bad_times": "expected times in milliseconds since 1970",
    "from_the_future": "expected an event_ts_ms that is not after ingest_ts_ms; check the clock of the client",
    "bad_values": "expected a number as value, such as milliseconds of play, or nothing",
}
"""What was expected, by the reason of a rejection."""


def typed(table: pa.Table, ingest_ts_ms: int | None) -> pa.Table:
    """The columns of the log with their types; null where a value is impossible."""
    columns = {
        "request_id": _whole(table["request_id"]),
        "item_id": _item_ids(table["item_id"]),
        "event": _kinds(table["event"]),
        "event_ts_ms": _whole(table["event_ts_ms"]),
        "value": _values(table),
        "ingest_ts_ms": _whole(_or_all(table, "ingest_ts_ms", ingest_ts_ms)),
    }
    return pa.table(columns)


def rejected_rows(made: pa.Table) -> dict[str, Array]:
    """Which rows are no events, under their first reason; `made` has the types of the log."""
    stamps = {name: pc.fill_null(made[name], -1).to_numpy() for name in ("event_ts_ms", "ingest_ts_ms")}
    reasons = {
        "bad_ids": ~_valid(made["request_id"]) | ~_valid(made["item_id"]),
        "unknown_events": ~_valid(made["event"]),
        "bad_times": np.any([(one < EARLIEST) | (one > LATEST) for one in stamps.values()], axis=0),
        "from_the_future": stamps["event_ts_ms"] > stamps["ingest_ts_ms"] + CLOCK_MS,
        "bad_values": ~_valid(made["value"]),
    }
    good, first = np.ones(len(made), bool), dict[str, Array]()
    for kind, bad in reasons.items():
        first[kind] = bad & good
        good &= ~bad
    return first


def _valid(column: pa.ChunkedArray) -> Array:
    valid: Array = column.is_valid().to_numpy()
    return valid


def _or_all(table: pa.Table, name: str, value: Any) -> Any:
    """A column, or one value for all rows."""
    return table[name] if name in table.column_names else pa.array([value] * len(table))


def _whole(column: Any) -> pa.Array:
    """A column as int64, null where it is not a whole number."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return _parsed(column, pa.int64(), _int)


def _parsed(column: Any, kind: pa.DataType, one: Callable[[Any], Any]) -> Any:
    """A column as numbers; value by value only where Arrow cannot read all of them."""
    if not pa.types.is_string(column.type):
        return _each(column, kind, one)
    try:
        return pc.if_else(pc.equal(column, ""), None, column).cast(kind)
    except pa.ArrowInvalid:
        return _each(column, kind, one)


def _each(column: Any, kind: pa.DataType, one: Callable[[Any], Any]) -> pa.Array:
    return pa.array([one(value) for value in column.to_pylist()], kind)


def _int(value: Any) -> int | None:
    """A whole number of 64 bits from a number or from text, None for anything else."""
    if isinstance(value, str):
        return as_id(value.strip().removesuffix(".0"), text=False)  # type: ignore[return-value]
    try:
        return int(value) if float(value) == int(value) and abs(int(value)) < INT64 else None
    except (TypeError, ValueError, OverflowError):
        return None


def _item_ids(column: Any) -> Any:
    """Ids as whole numbers or text; an empty text is no id."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), None, text)


def _kinds(column: Any) -> pa.Array:
    """Names or numbers of events as int8, null for what is none."""
    if pa.types.is_integer(column.type):
        known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(EVENTS)))
        return pc.if_else(known, column, None).cast(pa.int8())
    text = column.cast(pa.string())
    names, numbers = (pa.array(known) for known in (EVENTS, [str(one) for one in range(len(EVENTS))]))
    found = pc.coalesce(pc.index_in(text, value_set=names), pc.index_in(text, value_set=numbers))
    return found.cast(pa.int8())


def _values(table: pa.Table) -> Any:
    """Values such as milliseconds of play; 0 where there is none, null where it is not a finite number."""
    column = _or_all(table, "value", 0.0)
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        column = _parsed(column, pa.float32(), _float)
    numbers = pc.fill_null(column.cast(pa.float32()), 0.0)
    numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(0.0, pa.float32()), numbers)
    return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float32()))


def _float(value: Any) -> float | None:
    """A number, 0 for nothing, infinity for what is not a number."""
    try:
        return float(value) if value not in (None, "") else None
    except (TypeError, ValueError):
        return math.inf
