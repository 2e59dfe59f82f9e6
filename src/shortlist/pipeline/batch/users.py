"""The users of a batch: all of a bundle, or those of a list or file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.data.tables.advice import without_options
from shortlist.data.tables.bad_rows import blank
from shortlist.data.tables.encodings import not_utf8
from shortlist.data.tables.files import File, one_file
from shortlist.data.tables.sniff import sniff_format
from shortlist.data.tables.table_file import FORMATS, Table
from shortlist.data.tables.to_events import check_ids
from shortlist.errors import ConfigError, DataError

UnknownUsers = Literal["answer", "skip"]
UNKNOWN_USERS: tuple[UnknownUsers, ...] = ("answer", "skip")
COLUMN = "user"  # of a file of users, if it has several columns


@dataclass(frozen=True, eq=False)
class Users:
    """Users in the order of their answers: ids as they were given, and rows, -1 for an unknown user."""

    ids: pa.Array
    rows: NDArray[np.int64]
    unknown: int = 0  # ids that are not in the bundle, answered or not
    repeated: int = 0  # ids given again; every user is answered once

    def __len__(self) -> int:
        return len(self.rows)


def select_users(
    known: Vocabulary, ids: Sequence[int | str] | pa.Array | None = None, unknown: UnknownUsers = "answer"
) -> Users:
    """The users with these ids, each once; all known users without ids."""
    if unknown not in UNKNOWN_USERS:
        raise ConfigError(
            f"--unknown (unknown=): expected one of {', '.join(UNKNOWN_USERS)}, got {unknown!r}"
        )
    if ids is None:
        return Users(known.ids, np.arange(len(known)))
    distinct, repeated = _distinct(ids)
    rows = known.rows(distinct.to_pylist())
    missing = rows == UNKNOWN
    if unknown == "skip":
        distinct, rows = distinct.filter(pa.array(~missing)), rows[~missing]
    return Users(distinct, rows, int(missing.sum()), repeated)


def _distinct(ids: Sequence[int | str] | pa.Array) -> tuple[pa.Array, int]:
    """Every id once, in the order of first appearance, and the number of repeats."""
    given = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else _as_array(ids)
    if given.null_count:
        raise DataError(f"users: expected an id in every row, got {given.null_count} empty ones")
    distinct = pc.unique(given)
    return distinct, len(given) - len(distinct)


def _as_array(ids: Sequence[Any]) -> pa.Array:
    text = any(isinstance(one, str) for one in ids)
    return pa.array(list(map(str, ids)), pa.string()) if text else pa.array(list(map(int, ids)), pa.int64())


def read_user_ids(source: Path | str | BinaryIO, column: str | None = None) -> pa.Array:
    """The ids in a file or a binary stream: one per line, or a column of CSV, TSV, JSON lines or Parquet.

    A file whose name ends like a table is one, and so is anything with a `column`; it is needed if there are several
    and none is called "user". The ids of a text format stay text.
    """
    file = one_file(source)
    is_table = any(end.lower() in FORMATS for end in file.suffixes[-1:])
    if not is_table and column is None:
        return pa.array(_lines(file), pa.string())
    with without_options():
        file_format = "" if is_table else sniff_format(file) or "csv"
        return _column(Table(file, {column or COLUMN: "--users-column"}, file_format), column)


def _lines(file: File) -> list[str]:
    """The lines that are not blank."""
    lines = []
    with file.opened() as stream:
        for number, raw in enumerate(stream, start=1):
            problem, _ = not_utf8(raw)
            if problem:
                raise DataError(f"{file.name}:{number}: {problem}; save the file as UTF-8")
            lines.append(raw.decode("utf-8-sig" if number == 1 else "utf-8").strip())
    return [line for line in lines if line]


def _column(table: Table, column: str | None) -> pa.Array:
    """The column with the ids; an empty one is refused with its line."""
    names = table.present()
    chosen = column or (names[0] if len(names) == 1 else COLUMN)
    found = replace(table, needed={chosen: "--users-column"}).read({chosen: "id"})
    ids = check_ids(found, chosen)
    if (empty := blank(ids)) is not None:
        raise DataError(
            f"{found.locate(int(empty.argmax()))}: expected a user id as {chosen!r}, got an empty one"
        )
    return ids.dictionary.take(ids.indices)
