"""The manifest of a log: one JSON line per finished part. Readers use no file that is not in it."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from shortlist.artifact.as_json import as_json
from shortlist.artifact.os_errors import errors_name

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class Part:
    """One finished file; a line without a path carries counts only."""

    table: str
    path: str  # relative to the root of the log
    rows: int
    min_ts: int
    max_ts: int
    sha256: str
    schema_version: int
    writer: str = ""
    seq: int = 0
    min_id: int = 0  # smallest and largest request id
    max_id: int = 0
    bytes: int = 0
    dropped_requests: int = 0  # the queue was full
    failed_requests: int = 0  # could not be converted or written
    skipped_requests: int = 0  # outside of the logged share
    clock_backwards: int = 0  # requests with an earlier time than one before
    users_not_stored: int = 0  # user ids that are not of the type of the column
    rejected_events: int = 0  # feedback that is not an event

    @property
    def key(self) -> tuple[str, str, int]:
        """What the parts of both tables with the same requests share."""
        return str(Path(self.path).parent).partition("/")[2], self.writer, self.seq


@dataclass(frozen=True)
class Manifest:
    """The parts of a log in the order they were finished, and the lines that are not parts."""

    parts: tuple[Part, ...]
    bad_lines: tuple[str, ...] = ()  # number of the line and the reason

    def of(self, table: str) -> tuple[Part, ...]:
        """The parts of one table; of two lines about one file, the later counts."""
        return tuple({part.path: part for part in self.parts if part.table == table and part.path}.values())


def read_manifest(root: Path) -> Manifest:
    """The finished parts; a line that was cut off or damaged is counted, not fatal."""
    path = root / MANIFEST
    if not path.exists():
        return Manifest(())
    parts, bad = list[Part](), list[str]()
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line:
            part = _part(line)
            if isinstance(part, Part):
                parts.append(part)
            else:
                bad.append(f"{path}:{number}: {part}")
    return Manifest(tuple(parts), tuple(bad))


def append_parts(root: Path, parts: Sequence[Part]) -> None:
    """Append lines and wait until they are on the disk; what a killed writer left of a line is cut off first."""
    with _open(root) as handle:
        _cut_torn_line(handle)
        text = "".join(json.dumps(as_json(part)) + "\n" for part in parts)
        os.lseek(handle, 0, os.SEEK_END)
        _write(handle, text.encode())
        os.fsync(handle)


def repair(root: Path) -> int:
    """Cut off an unfinished last line; the number of bytes removed."""
    with _open(root) as handle:
        return _cut_torn_line(handle)


def sha256_of(path: Path) -> str:
    """The hash of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def _open(root: Path) -> Iterator[int]:
    """The manifest, locked against other writers; the kernel releases the lock when a process ends."""
    path = root / MANIFEST
    with errors_name(path):
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)


def _cut_torn_line(handle: int) -> int:
    size = os.fstat(handle).st_size
    end = size
    while end > 0:
        start = max(end - 4096, 0)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
        os.fsync(handle)
    return size - end


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _inside(path: object) -> bool:
    """Whether a path stays in the folder of the log."""
    return isinstance(path, str) and not path.startswith("/") and ".." not in Path(path).parts


def _part(line: bytes) -> Part | str:
    """The part of a line, or what is wrong with it."""
    try:
        values: Any = json.loads(line)
        if not isinstance(values, dict) or not _inside(values.get("path")):
            return f"expected a JSON object with a path in the log, got {line[:80]!r}; remove the line"
        known: dict[str, Any] = {one.name: one.type for one in fields(Part) if one.name in values}
        wrong = [name for name, kind in known.items() if type(values[name]) is not kind]
        if wrong:
            return f"expected another type of {', '.join(wrong)}, got {line[:80]!r}; remove the line"
        return Part(**{name: values[name] for name in known})
    except (ValueError, TypeError) as error:
        return f"expected the JSON of a part, got {line[:80]!r} ({error}); remove the line"
