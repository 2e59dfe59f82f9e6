"""Feedback events: what came back for served items, appended to the log in parts sorted by request."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.errors import DataError
from shortlist.feedback.events.columns import COLUMNS, EXPECTED, rejected_rows, typed
from shortlist.feedback.manifest import Part, append_parts, read_manifest, repair
from shortlist.feedback.parts import (
    HOUR_MS,
    check_name,
    next_seq,
    parquet_bytes,
    remove_temporary,
    writer_lock,
)
from shortlist.feedback.problems import Problems
from shortlist.feedback.record import Array
from shortlist.feedback.schema import SCHEMA_VERSION
from shortlist.feedback.write.buffer import write_part

LATENESS_MS = 10 * 60_000  # an event that is later than this behind the newest one is a correction
ROW_GROUP = 1 << 16
EVENT_TABLES = ("feedback", "corrections")


@dataclass(frozen=True)
class AppendedEvents:
    """What became of the rows of one call."""

    written: int
    corrections: int  # of them, events that came after their time
    problems: Problems = field(default_factory=Problems)


Events: TypeAlias = pa.Table | Mapping[str, Any] | Iterable[pa.Table]


def append_events(
    root: Path | str,
    events: Events,
    ingest_ts_ms: int | None = None,
    writer: str = "events",
    lateness_ms: int = LATENESS_MS,
) -> AppendedEvents:
    """Append events to the log, all or none; a row that is not an event is counted, explained and left out.

    The columns are request_id, item_id, event (its name or number), event_ts_ms, value and ingest_ts_ms; the last one
    may be given for all rows. Events behind the watermark go to the table `corrections`. Of several tables, one is in
    memory at a time.
    """
    root, problems = Path(root), Problems()
    late_before = watermark(root, lateness_ms)
    with writer_lock(root, check_name(writer)):
        remove_temporary(root, writer)
        repair(root)
        seq = next_seq(root, writer)
        parts = _all_parts(root, _good_rows(events, ingest_ts_ms, problems), late_before, writer, seq)
        _commit(root, parts, sum(problems.counts.values()), writer, seq)
    rows = {name: sum(part.rows for part in parts if part.table == name) for name in EVENT_TABLES}
    return AppendedEvents(sum(rows.values()), rows["corrections"], problems)


def _good_rows(events: Events, ingest_ts_ms: int | None, problems: Problems) -> Iterator[pa.Table]:
    """The rows that are events, one table after the other."""
    first = 1
    for table in _tables(events):
        yield checked(table, ingest_ts_ms, problems, first)
        first += len(table)


def _tables(events: Events) -> Iterable[pa.Table]:
    if isinstance(events, pa.Table):
        return (events,)
    return (pa.table(events),) if isinstance(events, Mapping) else events


def _all_parts(root: Path, tables: Iterable[pa.Table], late_before: int, writer: str, seq: int) -> list[Part]:
    """The parts of all tables; if one fails, none of them stays on the disk."""
    parts = list[Part]()
    try:
        for number, table in enumerate(tables, start=seq):
            late = table["event_ts_ms"].to_numpy() < late_before
            for name, rows in zip(EVENT_TABLES, (~late, late), strict=True):
                for part in _parts(root, name, table.filter(pa.array(rows)), writer, number):
                    parts.append(part)
    except BaseException:
        for part in parts:
            (root / part.path).unlink(missing_ok=True)
        raise
    return parts


def watermark(root: Path, lateness_ms: int = LATENESS_MS) -> int:
    """The time up to which events are expected to be there: the newest event minus the allowed lateness."""
    newest = max((part.max_ts for part in read_manifest(root).of("feedback")), default=0)
    return newest - lateness_ms


def checked(table: pa.Table, ingest_ts_ms: int | None, problems: Problems, first: int = 1) -> pa.Table:
    """The rows that are events, with the columns and types of the log; `first` is the number of the first row."""
    missing = [name for name in COLUMNS[:4] if name not in table.column_names]
    if missing or (ingest_ts_ms is None and "ingest_ts_ms" not in table.column_names):
        raise DataError(
            f"events: expected the columns {', '.join(COLUMNS)}, got {', '.join(table.column_names)}; rename them"
        )
    made = typed(table, ingest_ts_ms)
    return made.filter(pa.array(_good(made, table, problems, first)))


def _good(made: pa.Table, table: pa.Table, problems: Problems, first: int) -> Array:
    """Which rows are events; each other one is counted under its first reason."""
    reasons = rejected_rows(made)
    for kind, bad in reasons.items():
        rows = np.flatnonzero(bad)
        for row in rows[:1]:
            problems.add(
                kind, f"row {first + row}: {table.slice(row, 1).to_pylist()[0]}; {EXPECTED[kind]}", len(rows)
            )
    good: Array = ~np.any(list(reasons.values()), axis=0)
    return good


def _parts(root: Path, table: str, events: pa.Table, writer: str, seq: int) -> Iterator[Part]:
    """One part per hour of the events, sorted by request, so that a join reads few row groups."""
    hours = events["event_ts_ms"].to_numpy() // HOUR_MS
    for hour in np.unique(hours).tolist():
        some = events.filter(pa.array(hours == hour)).sort_by([(name, "ascending") for name in COLUMNS[:4]])
        groups = (some.slice(at, ROW_GROUP) for at in range(0, len(some), ROW_GROUP))
        span = (*_span(some["event_ts_ms"]), *_span(some["request_id"]))
        yield write_part(root, table, hour, writer, seq, len(some), span, parquet_bytes(groups))


def _commit(root: Path, parts: list[Part], rejected: int, writer: str, seq: int) -> None:
    if not parts and rejected:
        parts = [Part("feedback", "", 0, 0, 0, "", SCHEMA_VERSION, writer, seq)]
    if parts:
        append_parts(root, [*parts[:-1], replace(parts[-1], rejected_events=rejected)])


def _span(column: pa.ChunkedArray) -> tuple[int, int]:
    ends = pc.min_max(column).as_py()
    return ends["min"], ends["max"]
