"""Parquet, read one column at a time to limit memory."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.data.tables.files import OPENERS, File
from shortlist.data.tables.parsed import ParsedTable, skips
from shortlist.data.tables.typed_columns import check_names, compacted, narrowed, parsed_columns
from shortlist.errors import DataError

ROWS = 1 << 20  # read at once
DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


def read_parquet(
    file: File,
    kinds: Mapping[str, str],
    bad_lines: str = "refuse",
    options: Mapping[str, str] | None = None,
    time_format: str = "",
) -> ParsedTable:
    """The columns of `kinds`; ids are dictionary-encoded as soon as they are read."""
    check_names(file.name, parquet_names(file), kinds, options or {})
    try:
        with _seekable(file) as path:
            table = pa.table({name: _column(path, name, kind) for name, kind in kinds.items()})
    except DAMAGE as error:
        raise _damaged(file, error) from error
    return parsed_columns(table, file.name, kinds, skips(bad_lines), time_format)


def parquet_names(file: File) -> tuple[str, ...]:
    """The columns of a file."""
    try:
        with _seekable(file) as path:
            return tuple(pq.read_schema(path).names)
    except DAMAGE as error:
        raise _damaged(file, error) from error


@contextmanager
def _seekable(file: File) -> Iterator[Path | io.BytesIO]:
    """The path of a plain file; the bytes of one that is inside a zip, compressed or a stream."""
    if not file.member and file.blob is None and file.path.suffix not in OPENERS:
        yield file.path
    else:
        with file.binary() as stream:
            yield io.BytesIO(stream.read())


def _damaged(file: File, error: Exception) -> DataError:
    brief = str(error).partition("\n")[0]
    return DataError(f"{file.name}: is not a complete Parquet file ({brief}); download it again")


def _column(path: Path | io.BytesIO, name: str, kind: str) -> pa.ChunkedArray | pa.Array:
    column = compacted(_narrowed(path, name, kind), kind)
    pa.default_memory_pool().release_unused()  # the next column needs the memory
    return column


def _narrowed(path: Path | io.BytesIO, name: str, kind: str) -> pa.ChunkedArray:
    """A column whose ids and numbers are narrowed batch by batch, so it is never in memory at full width."""
    coded = [name] if kind == "id" else None
    with pq.ParquetFile(path, read_dictionary=coded, pre_buffer=False) as file:
        batches = file.iter_batches(ROWS, columns=[name])
        pieces = [narrowed(batch[name], kind) for batch in batches]
        return pa.chunked_array(pieces, type=None if pieces else file.schema_arrow.field(name).type)
