"""The users of a batch: all of a bundle, or those of a list or file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError, DataError

UnknownUsers = Literal["answer", "skip"]
UNKNOWN_USERS: tuple[UnknownUsers, ...] = ("answer", "skip")
COLUMN = "user"  # of a file of users, if it has several columns
DELIMITERS = {".csv": ",", ".tsv": "\t"}


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


def read_user_ids(path: Path | str, column: str | None = None) -> pa.Array:
    """The ids in a file: a column of Parquet, CSV or TSV, or a text file with one id per line.

    The ids of a text format stay text. `column` is needed if there are several and none is called "user".
    """
    path = Path(path)
    if path.suffix in (".parquet", ".pq"):
        ids = _column(_parquet(path), path, column)
        return ids.cast(pa.int64() if pa.types.is_integer(ids.type) else pa.string())
    if path.suffix in DELIMITERS:
        return _column(_delimited(path), path, column)
    if column is not None:
        raise ConfigError(f"{path}: has no columns; expected a file that ends in .csv, .tsv or .parquet")
    return pa.array([line.strip() for line in _lines(path) if line.strip()], pa.string())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text with one user id per line ({error})") from error


def _parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: is not a Parquet file ({error})") from error


def _delimited(path: Path) -> pa.Table:
    """All columns as text."""
    parse = pcsv.ParseOptions(delimiter=DELIMITERS[path.suffix], newlines_in_values=True)
    try:
        with pcsv.open_csv(path, parse_options=parse) as reader:
            names = reader.schema.names
        convert = pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        return pcsv.read_csv(path, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: cannot be read as a table with a header ({error})") from error


def _column(table: pa.Table, path: Path, column: str | None) -> pa.Array:
    """The column with the ids."""
    names = table.column_names
    chosen = column or (names[0] if len(names) == 1 else COLUMN)
    if chosen not in names:
        raise DataError(
            f"{path}: expected a column {chosen!r} of user ids, got {', '.join(map(repr, names))}; "
            "choose one with --users-column NAME"
        )
    return table[chosen].combine_chunks()
