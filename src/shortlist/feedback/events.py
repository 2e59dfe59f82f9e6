"""Feedback events: what came back for served items, appended to the log in parts sorted by request."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.errors import DataError
from shortlist.feedback.buffer import write_part
from shortlist.feedback.manifest import Part, append_parts, read_manifest, repair
from shortlist.feedback.parts import (
    HOUR_MS,
    check_name,
    next_seq,
    parquet_bytes,
    remove_temporary,
    writer_lock,
)
from shortlist.feedback.reader import Problems
from shortlist.feedback.record import Array
from shortlist.feedback.schema import EVENTS, INT64, SCHEMA_VERSION, as_id

LATENESS_MS = 10 * 60_000  # an event that is later than this behind the newest one is a correction
CLOCK_MS = 5 * 60_000  # how far the clock of a client may be ahead
ROW_GROUP = 1 << 16
EARLIEST, LATEST = 0, 1 << 42  # times in milliseconds, 1970 to 2109
COLUMNS = ("request_id", "item_id", "event", "event_ts_ms", "value", "ingest_ts_ms")


@dataclass(frozen=True)
class AppendedEvents:
    """What became of the rows of one call."""

    written: int
    corrections: int  # of them, events that came after their time
    problems: Problems = field(default_factory=Problems)


def append_events(
    root: Path,
    events: pa.Table | Mapping[str, Any],
    ingest_ts_ms: int | None = None,
    writer: str = "events",
    lateness_ms: int = LATENESS_MS,
) -> AppendedEvents:
    """Append events to the log; a row that is not an event is counted, explained and left out.

    The columns are request_id, item_id, event (its name or number), event_ts_ms, value and ingest_ts_ms; the last one
    may be given for all rows. Events behind the watermark go to the table `corrections`.
    """
    problems = Problems()
    table = checked(events if isinstance(events, pa.Table) else pa.table(events), ingest_ts_ms, problems)
    late = table["event_ts_ms"].to_numpy() < watermark(root, lateness_ms)
    with writer_lock(root, check_name(writer)):
        remove_temporary(root, writer)
        repair(root)
        seq = next_seq(root, writer)
        parts = [
            *_parts(root, "feedback", table.filter(pa.array(~late)), writer, seq),
            *_parts(root, "corrections", table.filter(pa.array(late)), writer, seq),
        ]
        _commit(root, parts, sum(problems.counts.values()), writer, seq)
    return AppendedEvents(len(table), int(late.sum()), problems)


def watermark(root: Path, lateness_ms: int = LATENESS_MS) -> int:
    """The time up to which events are expected to be there: the newest event minus the allowed lateness."""
    newest = max((part.max_ts for part in read_manifest(root).of("feedback")), default=EARLIEST)
    return newest - lateness_ms


def checked(table: pa.Table, ingest_ts_ms: int | None, problems: Problems) -> pa.Table:
    """The rows that are events, with the columns and types of the log."""
    missing = [name for name in COLUMNS[:4] if name not in table.column_names]
    if missing or (ingest_ts_ms is None and "ingest_ts_ms" not in table.column_names):
        raise DataError(
            f"events: expected the columns {', '.join(COLUMNS)}, got {', '.join(table.column_names)}; rename them"
        )
    made = typed(table, ingest_ts_ms)
    return made.filter(pa.array(_good(made, table, problems)))


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
    }
    good, first = np.ones(len(made), bool), dict[str, Array]()
    for kind, bad in reasons.items():
        first[kind] = bad & good
        good &= ~bad
    return first


def _good(made: pa.Table, table: pa.Table, problems: Problems) -> Array:
    """Which rows are events; each other one is counted under its first reason."""
    reasons = rejected_rows(made)
    for kind, bad in reasons.items():
        rows = np.flatnonzero(bad)
        for row in rows[:1]:
            problems.add(
                kind, f"row {row + 1}: {table.slice(row, 1).to_pylist()[0]}; {EXPECTED[kind]}", len(rows)
            )
    good: Array = ~np.any(list(reasons.values()), axis=0)
    return good


EXPECTED = {
    "bad_ids": "expected a whole number as request_id and an item_id",
    "unknown_events": f"expected one of {', '.join(EVENTS)}",
    "bad_times": "expected times in milliseconds since 1970",
    "from_the_future": "expected an event_ts_ms that is not after ingest_ts_ms; check the clock of the client",
}


def _parts(root: Path, table: str, events: pa.Table, writer: str, seq: int) -> list[Part]:
    """One part per hour of the events, sorted by request, so that a join reads few row groups."""
    hours = events["event_ts_ms"].to_numpy() // HOUR_MS
    parts = []
    for hour in np.unique(hours).tolist():
        some = events.filter(pa.array(hours == hour)).sort_by([(name, "ascending") for name in COLUMNS[:4]])
        groups = (some.slice(at, ROW_GROUP) for at in range(0, len(some), ROW_GROUP))
        span = (*_span(some["event_ts_ms"]), *_span(some["request_id"]))
        parts.append(write_part(root, table, hour, writer, seq, len(some), span, parquet_bytes(groups)))
    return parts


def _commit(root: Path, parts: list[Part], rejected: int, writer: str, seq: int) -> None:
    if not parts and rejected:
        parts = [Part("feedback", "", 0, 0, 0, "", SCHEMA_VERSION, writer, seq)]
    if parts:
        append_parts(root, [*parts[:-1], replace(parts[-1], rejected_events=rejected)])


def _span(column: pa.ChunkedArray) -> tuple[int, int]:
    ends = pc.min_max(column).as_py()
    return ends["min"], ends["max"]


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
    return pa.array([_int(one) for one in column.to_pylist()], pa.int64())


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
    return pc.index_in(column.cast(pa.string()), value_set=pa.array(EVENTS)).cast(pa.int8())


def _values(table: pa.Table) -> Any:
    """Values such as milliseconds of play; 0 where there is none."""
    column = _or_all(table, "value", 0.0).cast(pa.float32())
    return pc.if_else(pc.is_finite(pc.fill_null(column, 0.0)), pc.fill_null(column, 0.0), 0.0).cast(
        pa.float32()
    )
