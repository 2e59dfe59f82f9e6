"""Columns that have types already (Parquet, data frames): checked, and narrowed to what events need."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import Ids, Place, dictionary_ids, one_chunk
from shortlist.data.tables.bad_rows import is_text, without_rows
from shortlist.data.tables.parsed import ParsedTable, missing_column
from shortlist.data.tables.text_times import with_parsed_times
from shortlist.errors import DataError


def parsed_columns(
    table: pa.Table, name: str, kinds: Mapping[str, str], skip: bool, time_format: str = ""
) -> ParsedTable:
    """A table of narrowed columns after the check of its gaps; its rows count from 1, times of text are parsed."""
    if not table.num_rows:
        raise DataError(f"{name}:row 1: expected at least one row of events, got none; add events")
    whole = ParsedTable(table, name, lambda rows: _places(table, name, rows), skip=skip)
    found = with_parsed_times(whole, kinds, time_format)
    return _without_gaps(found, kinds) if skip else _check_gaps(found, kinds)


def check_names(file: str, names: Sequence[str], columns: Iterable[str], options: Mapping[str, str]) -> None:
    """Raise an error unless every column is among the names; `options` maps columns to what names them."""
    for name in columns:
        if name not in names:
            raise missing_column(file, name, names, options.get(name, ""))


def compacted(column: pa.ChunkedArray, kind: str) -> Ids:
    """Ids dictionary-encoded, numbers and times in one chunk."""
    if kind == "id" and not column.null_count and _is_id(column.type):
        return dictionary_ids(column)
    return one_chunk(column) if kind in ("number", "time") and _fits(column.type, kind) else column


def _places(table: pa.Table, name: str, rows: Sequence[int]) -> list[Place]:
    texts = table.take(pa.array(rows, pa.int64())).to_pylist()
    shown = (", ".join(f"{key}={value}" for key, value in row.items()) for row in texts)
    return [Place(name, f"row {row + 1}", text) for row, text in zip(rows, shown, strict=True)]


def narrowed(piece: Ids, kind: str) -> Ids:
    """Ids dictionary-encoded and numbers as float32; other columns as they are."""
    piece.validate(full=True)  # a damaged file may hold invalid UTF-8 or dictionary indices out of range
    if kind == "id" and _is_id(piece.type) and not pa.types.is_dictionary(piece.type):
        return pc.dictionary_encode(piece)
    if kind == "number" and _is_number(piece.type):
        return pc.cast(piece, pa.float32(), safe=False)
    return piece


def _check_gaps(found: ParsedTable, kinds: Mapping[str, str]) -> ParsedTable:
    for name, kind in _checked(found, kinds).items():
        if len(gaps := _gaps(found.table[name])):
            raise DataError(
                f"{found.locate(int(gaps[0]))}: expected a {kind} as {name!r}, got nothing; "
                "fill it in, or skip such rows with --bad-lines skip"
            )
    return found


def _without_gaps(found: ParsedTable, kinds: Mapping[str, str]) -> ParsedTable:
    why = {
        int(row): f"expected a {kind} as {name!r}, got nothing"
        for name, kind in _checked(found, kinds).items()
        for row in _gaps(found.table[name])
    }
    return without_rows(found, why)


def _checked(found: ParsedTable, kinds: Mapping[str, str]) -> dict[str, str]:
    """The columns of numbers and times, after the check of their types."""
    checked = {name: kind for name, kind in kinds.items() if kind in ("number", "time")}
    for name, kind in checked.items():
        type = found.table[name].type
        if not _fits(type, kind):
            raise DataError(f"{found.name}: expected a {kind} as {name!r}, got {type}; map another column")
    return checked


def _gaps(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The rows that are null, NaN or infinite."""
    finite = pc.is_finite(column) if pa.types.is_floating(column.type) else pc.is_valid(column)
    clean = pc.all(pc.fill_null(finite, False), min_count=0).as_py()
    return np.flatnonzero(~np.asarray(pc.fill_null(finite, False))) if not clean else np.zeros(0, np.int64)


def _fits(type: pa.DataType, kind: str) -> bool:
    is_date = bool(pa.types.is_timestamp(type) or pa.types.is_date(type))
    return _is_number(type) or (kind == "time" and is_date)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_id(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or pa.types.is_integer(kind) or pa.types.is_dictionary(kind))
