"""Live events from a file of rows: user, item, time and, if there is one, the id of the event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from shortlist.data.tables.advice import without_options
from shortlist.data.tables.bad_rows import blank
from shortlist.data.tables.files import one_file
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.table_file import Table
from shortlist.data.tables.times import milliseconds
from shortlist.data.tables.to_events import check_ids
from shortlist.errors import DataError
from shortlist.state import UserEvent

COLUMNS = ("user", "item", "time")
EVENT_ID = "event_id"
MOST = 2.0**63  # no unit makes a time of a number from here on


@dataclass(frozen=True, eq=False)
class ReadEvents:
    """The events of a file in its order, and where each comes from."""

    events: list[UserEvent]
    locate: Callable[[Sequence[int]], list[str]]  # file and line of some events, in one pass over the file


def read_live_events(source: Path | str | BinaryIO) -> ReadEvents:
    """The events of a file of CSV, TSV, JSON lines or Parquet with the columns user, item, time and event_id.

    Without event_id, rows with the same user, item and time are one event.
    """
    with without_options():
        found = _parsed(Table(one_file(source), needed=dict.fromkeys(COLUMNS, "")))
        users, items, times = _ids(found, "user"), _ids(found, "item"), _times(found)
        keys = (
            _ids(found, EVENT_ID) if EVENT_ID in found.table.column_names else map(_key, users, items, times)
        )
        rows = zip(users, items, times, keys, strict=True)
        return ReadEvents([UserEvent(*row) for row in rows], partial(_located, found))


def _located(found: ParsedTable, rows: Sequence[int]) -> list[str]:
    return [f"{one.file}:{one.line}" for one in found.places(rows)] if rows else []


def _parsed(table: Table) -> ParsedTable:
    """The columns of events, after the check of their names."""
    names = table.present()
    for name in (*COLUMNS, EVENT_ID):
        if names.count(name) != 1 and (name in COLUMNS or name in names):
            found = "it twice" if name in names else ", ".join(names)[:200]
            raise DataError(
                f"{table.file.name}: expected a column {name!r}, found {found}; "
                f"name the columns {', '.join(COLUMNS)} and perhaps {EVENT_ID}"
            )
    kinds = {"user": "id", "item": "id", "time": "time"} | ({EVENT_ID: "id"} if EVENT_ID in names else {})
    return table.read(kinds)


def _times(found: ParsedTable) -> list[int]:
    """Milliseconds since 1970; a number that is no time in any unit stays as it is, so that its event is rejected."""
    column = found.table["time"]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return list(milliseconds(column, "auto", found.locate).tolist())
    values = column.to_numpy()
    far = np.abs(values.astype(np.float64)) >= MOST
    near = np.flatnonzero(~far)
    times = values.astype(object)
    times[near] = milliseconds(column.take(pa.array(near)), "auto", lambda row: found.locate(int(near[row])))
    return list(map(int, times))


def _ids(found: ParsedTable, name: str) -> list[int | str]:
    """A column of ids; an empty one is refused with its line."""
    ids = check_ids(found, name)
    if (empty := blank(ids)) is not None:
        raise DataError(
            f"{found.locate(int(np.argmax(empty)))}: expected an id as {name!r}, got an empty one; fix the line"
        )
    values: list[int | str] = pa.array(ids.dictionary.take(ids.indices)).to_pylist()
    return values


def _key(user: int | str, item: int | str, time: int) -> str:
    """A hash: together, long ids are longer than an event id may be."""
    text = f"{user}\x00{item}\x00{time}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
