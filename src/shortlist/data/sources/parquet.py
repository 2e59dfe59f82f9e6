"""Parquet, read one column at a time to limit memory."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shortlist.data.raw_events import dictionary_ids, one_chunk
from shortlist.data.sources.parsed import ParsedTable
from shortlist.errors import DataError

ROWS = 1 << 20  # read at once
DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


def read_parquet(path: Path, kinds: Mapping[str, str]) -> ParsedTable:
    """The columns of `kinds`; ids are dictionary-encoded as soon as they are read."""
    _check_names(path, parquet_names(path), kinds)
    try:
        table = pa.table({name: _column(path, name, kind) for name, kind in kinds.items()})
    except DAMAGE as error:
        raise _damaged(path, error) from error
    found = ParsedTable(table, str(path), lambda row: f"{path}:row {row + 1}")
    if not len(found):
        raise DataError(f"{path}:row 1: expected at least one row of events, got none; add events")
    _check_gaps(found, kinds)
    return found


def parquet_names(path: Path) -> tuple[str, ...]:
    """The columns of a file."""
    try:
        return tuple(pq.read_schema(path).names)
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    brief = str(error).partition("\n")[0]
    return DataError(f"{path}: is not a complete Parquet file ({brief}); download it again")


def _check_names(path: Path, names: tuple[str, ...], kinds: Mapping[str, str]) -> None:
    for name in kinds:
        if name not in names:
            raise DataError(
                f"{path}: expected a column {name!r}, found {', '.join(names)[:200]}; map another column"
            )


def _column(path: Path, name: str, kind: str) -> pa.ChunkedArray | pa.Array:
    column = _narrowed(path, name, kind)
    if kind == "id" and not column.null_count and _is_id(column.type):
        column = dictionary_ids(column)
    elif kind in ("number", "time") and _fits(column.type, kind):
        column = one_chunk(column)
    pa.default_memory_pool().release_unused()  # the next column needs the memory
    return column


def _narrowed(path: Path, name: str, kind: str) -> pa.ChunkedArray:
    """A column whose ids and numbers are narrowed batch by batch, so it is never in memory at full width."""
    coded = [name] if kind == "id" else None
    with pq.ParquetFile(path, read_dictionary=coded, pre_buffer=False) as file:
        batches = file.iter_batches(ROWS, columns=[name])
        pieces = [_narrow(batch[name], kind) for batch in batches]
        return pa.chunked_array(pieces, type=None if pieces else file.schema_arrow.field(name).type)


def _narrow(piece: pa.Array, kind: str) -> pa.Array:
    piece.validate(full=True)  # a damaged file may hold invalid UTF-8 or dictionary indices out of range
    if kind == "id" and _is_id(piece.type) and not pa.types.is_dictionary(piece.type):
        return pc.dictionary_encode(piece)
    if kind == "number" and _is_number(piece.type):
        return pc.cast(piece, pa.float32(), safe=False)
    return piece


def _check_gaps(found: ParsedTable, kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        column = found.table[name]
        if kind in ("number", "time") and not _fits(column.type, kind):
            raise DataError(
                f"{found.name}: expected a {kind} as {name!r}, got {column.type}; map another column"
            )
        if kind in ("number", "time") and (row := _first_gap(column)) >= 0:
            raise DataError(f"{found.locate(row)}: expected a {kind} as {name!r}, got nothing; fill it in")


def _fits(type: pa.DataType, kind: str) -> bool:
    is_date = bool(pa.types.is_timestamp(type) or pa.types.is_date(type))
    return _is_number(type) or (kind == "time" and is_date)


def _first_gap(column: pa.ChunkedArray) -> int:
    """The first row that is null, NaN or infinite; -1 if there is none."""
    if pa.types.is_floating(column.type):
        finite = pc.fill_null(pc.is_finite(column), False)
        return int(pc.index(finite, False).as_py()) if not pc.all(finite, min_count=0).as_py() else -1
    return int(pc.index(pc.is_null(column), True).as_py()) if column.null_count else -1


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_id(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_integer(kind) or pa.types.is_dictionary(kind))
