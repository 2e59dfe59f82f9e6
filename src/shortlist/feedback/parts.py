"""Part files: written beside their place, synchronised, renamed; a name without .tmp is a finished file."""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.artifact.os_errors import errors_name
from shortlist.errors import ArtifactError, ConfigError
from shortlist.feedback.manifest import read_manifest

HOUR_MS = 3_600_000
LEVEL = 3  # of zstd
TEMPORARY = ".tmp"
NAME = re.compile(r"part-(?P<writer>[A-Za-z0-9_.]+)-(?P<seq>\d+)\.parquet(\.tmp)?")
_SPLIT = re.compile(r"score_\d+")


class WriterBusyError(ArtifactError):
    """Another process writes with the same name."""


def partition(hour: int) -> str:
    """The folder of an hour since 1970."""
    try:
        return datetime.fromtimestamp(hour * 3600, UTC).strftime("dt=%Y-%m-%d/hour=%H")
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(
            f"log: expected times in milliseconds since 1970, got {hour * HOUR_MS}, which is not in a year from 1 to "
            "9999; convert the times"
        ) from error


def part_path(table: str, hour: int, writer: str, seq: int) -> str:
    """The path of a part relative to the root of the log."""
    return f"table={table}/{partition(hour)}/part-{writer}-{seq}.parquet"


class ParquetBuffer:
    """A Parquet file in memory, zstd level 3, with one row group per table; equal tables give equal bytes."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Append a row group; the first one sets the columns and their types."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, **_options(table.schema))
        self._writer.write_table(table.cast(self._writer.schema), row_group_size=max(len(table), 1))

    def finish(self) -> bytes:
        """The bytes of the file."""
        if self._writer is not None:
            self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data


def parquet_bytes(row_groups: Iterable[pa.Table]) -> bytes:
    """A Parquet file of these row groups."""
    made = ParquetBuffer()
    for table in row_groups:
        made.write(table)
    return made.finish()


def _options(schema: pa.Schema) -> dict[str, object]:
    """Bytes of scores are stored by their place, which compresses better; other columns have dictionaries."""
    split = [name for name in schema.names if _SPLIT.fullmatch(name)]
    return {
        "compression": "zstd",
        "compression_level": LEVEL,
        "use_dictionary": [name for name in _leaves(schema) if name not in split],
        "use_byte_stream_split": split or False,
    }


def _leaves(schema: pa.Schema) -> list[str]:
    """Column paths as Parquet names them."""
    paths = list[str]()
    for one in schema:
        if pa.types.is_struct(one.type):
            paths += [f"{one.name}.{inner.name}" for inner in one.type]
        else:
            paths.append(f"{one.name}.list.element" if pa.types.is_list(one.type) else one.name)
    return paths


def write_bytes(root: Path, path: str, data: bytes) -> str:
    """Write one file whole or not at all and return its sha256."""
    target = root / path
    draft = target.with_name(target.name + TEMPORARY)
    with errors_name(target):
        made = [one for one in target.parents if not one.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            draft.replace(target)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        for folder in {target.parent, *(one.parent for one in made)}:
            _sync_folder(folder)
    return hashlib.sha256(data).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writer_lock(root: Path, writer: str) -> Iterator[None]:
    """Be the only process that writes parts with this name; the kernel releases the lock when the process ends."""
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(_lock_path(root, writer), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _locked(handle):
            raise WriterBusyError(
                f"{root}: another process writes parts with the name {writer!r}; give each process its own writer name"
            )
        yield
    finally:
        os.close(handle)


def remove_temporary(root: Path, writer: str) -> int:
    """Remove the .tmp files of this writer and of writers that no longer run; their number."""
    removed = 0
    for path in root.glob(f"table=*/**/*{TEMPORARY}"):
        found = NAME.fullmatch(path.name)
        if found and (found["writer"] == writer or not _runs(root, found["writer"])):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def next_seq(root: Path, writer: str) -> int:
    """A number that no part of this writer has, finished or not."""
    used = [part.seq for part in read_manifest(root).parts if part.writer == writer]
    found = (NAME.fullmatch(path.name) for path in root.glob(f"table=*/**/part-{writer}-*"))
    used += [int(one["seq"]) for one in found if one and one["writer"] == writer]
    return max(used, default=-1) + 1


def check_name(writer: str) -> str:
    """The name of a writer, which becomes a part of file names."""
    if not re.fullmatch(r"[A-Za-z0-9_.]{1,64}", writer):
        raise ConfigError(f"log: expected a writer name of letters, digits, _ and ., got {writer!r}")
    return writer


def _lock_path(root: Path, writer: str) -> Path:
    return root / f".writer-{writer}.lock"


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _runs(root: Path, writer: str) -> bool:
    """Whether a process holds the lock of this writer."""
    if not _lock_path(root, writer).exists():
        return False
    handle = os.open(_lock_path(root, writer), os.O_RDWR)
    try:
        return not _locked(handle)
    finally:
        os.close(handle)
