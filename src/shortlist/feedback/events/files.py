"""Files of users: events as tables of bounded size, and tables about items and users."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv
from pyarrow import json as json_lines

from shortlist.errors import ConfigError, DataError
from shortlist.feedback.events.columns import COLUMNS

ENDINGS = (".parquet", ".csv", ".jsonl")
BLOCK_BYTES = 32 << 20  # of a file of text
BLOCK_ROWS = 1 << 19  # of a Parquet file


def check_file(path: Path, what: str) -> Path:
    """The path, if it is a file with a known ending."""
    if path.suffix not in ENDINGS:
        raise ConfigError(
            f"{path}: expected a file that ends in {', '.join(ENDINGS)}, got {path.suffix or 'no ending'}"
        )
    if not path.is_file():
        raise ConfigError(f"{path}: expected a file of {what}, found none; check the path")
    return path


def read_events(
    path: Path, text_items: bool | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[pa.Table]:
    """The events of a file, one block after the other; `text_items` is that of the log."""
    check_file(path, "events")
    blocks = {".parquet": _parquet_blocks, ".csv": _csv_blocks, ".jsonl": _json_blocks}[path.suffix]
    try:
        for block in blocks(path, block_bytes):
            yield _with_ids(block, text_items)
    except pa.ArrowException as error:
        raise DataError(f"{path}: expected a table of events, got {error}; fix the file") from error


def read_features(path: Path, key: str, text_ids: bool | None = None) -> pa.Table:
    """A table with one row per id in the column `key`, with ids of the type of the log."""
    readers: dict[str, Any] = {
        ".parquet": pq.read_table,
        ".csv": _read_csv(key),
        ".jsonl": json_lines.read_json,
    }
    try:
        table = readers[check_file(path, "features").suffix](path)
    except pa.ArrowException as error:
        raise DataError(f"{path}: expected a table, got {error}; fix the file") from error
    if key not in table.column_names:
        raise DataError(
            f"{path}: expected a column {key}, got {', '.join(table.column_names)}; rename the column of ids"
        )
    ids = _ids(table[key], text_ids)
    kept = table.set_column(table.column_names.index(key), key, ids).filter(pc.is_valid(ids))
    if len(pc.unique(kept[key])) < len(kept):
        raise DataError(f"{path}: expected one row per {key}, got several; remove the others")
    return kept


def durations_of(table: pa.Table, path: Path) -> dict[Any, float]:
    """Milliseconds by item id, from the column `duration`."""
    if "duration" not in table.column_names:
        raise DataError(
            f"{path}: expected a column duration in milliseconds, got {', '.join(table.column_names)}; rename it"
        )
    try:
        lengths = table["duration"].cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: expected numbers as duration, got {error}; fix the file") from error
    known = table.filter(pc.greater(lengths, 0.0)), lengths.filter(pc.greater(lengths, 0.0))
    return dict(zip(known[0]["item_id"].to_pylist(), known[1].to_pylist(), strict=True))


def _parquet_blocks(path: Path, block_bytes: int) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name in COLUMNS]
        for batch in file.iter_batches(min(BLOCK_ROWS, block_bytes), columns=names):
            yield pa.Table.from_batches([batch])


def _csv_blocks(path: Path, block_bytes: int) -> Iterator[pa.Table]:
    """Values stay text: a later block may hold what the first does not."""
    text = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()))
    with csv.open_csv(path, csv.ReadOptions(block_size=block_bytes), convert_options=text) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _json_blocks(path: Path, block_bytes: int) -> Iterator[pa.Table]:
    """Types are those of each block."""
    options = json_lines.ReadOptions(use_threads=False, block_size=2 * block_bytes)
    with path.open("rb") as handle:
        while block := handle.read(block_bytes) + handle.readline():
            if block.strip():
                yield json_lines.read_json(pa.BufferReader(block), options)


def _read_csv(key: str) -> Any:
    options = csv.ConvertOptions(column_types={key: pa.string()})
    return lambda path: csv.read_csv(path, convert_options=options)


def _with_ids(table: pa.Table, text_items: bool | None) -> pa.Table:
    """The table with item ids of the type of the log, where all of them can have it."""
    if "item_id" not in table.column_names:
        return table
    return table.set_column(
        table.column_names.index("item_id"), "item_id", _ids(table["item_id"], text_items)
    )


def _ids(column: Any, text: bool | None) -> Any:
    if text is None or not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return column
    try:
        return column.cast(pa.string() if text else pa.int64())
    except pa.ArrowInvalid:
        return column
