"""Recommendations as Parquet, CSV or JSON lines, by the suffix of the file."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from shortlist.errors import ConfigError

ROW_GROUP = 1 << 17  # least rows of a row group
SEPARATOR = "|"  # between the nominators of an item in CSV

Batches = Iterable[pa.RecordBatch]
Format = Callable[[Path, pa.Schema, Batches], None]


def format_of(out: Path) -> Format:
    """The writer of a file, by its suffix."""
    if out.suffix not in FORMATS:
        raise ConfigError(f"{out}: expected a file that ends in {', '.join(FORMATS)}, got {out.suffix!r}")
    return FORMATS[out.suffix]


def write_parquet(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in _row_groups(schema, batches):
            writer.write_table(table, row_group_size=max(len(table), 1))


def write_csv(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with pcsv.CSVWriter(path, _flat_schema(schema)) as writer:
        for batch in batches:
            writer.write_batch(_flat(batch))


def write_json_lines(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for batch in batches:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


FORMATS: Mapping[str, Format] = {".parquet": write_parquet, ".csv": write_csv, ".jsonl": write_json_lines}


def _row_groups(schema: pa.Schema, batches: Batches) -> Iterator[pa.Table]:
    """Batches together until they are large enough for a row group."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROW_GROUP:
            yield pa.Table.from_batches(waiting, schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field(one.name, pa.string()) if pa.types.is_list(one.type) else one for one in schema]
    )


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no lists: names of nominators in one text."""
    columns = [pc.binary_join(one, SEPARATOR) if pa.types.is_list(one.type) else one for one in batch.columns]
    return pa.record_batch(columns, schema=_flat_schema(batch.schema))
