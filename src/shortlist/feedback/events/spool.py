"""Spools: events on the disk that are in no part yet, one JSON line each, synchronised before they are acknowledged."""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from shortlist.artifact.os_errors import errors_name

NAME = re.compile(r"\.events-(?P<writer>[A-Za-z0-9_.]+)-(?P<seq>\d+)\.jsonl")


@dataclass(frozen=True)
class Spool:
    """One open file, locked until it is closed; the kernel releases the lock when the process ends."""

    path: Path
    handle: int

    @classmethod
    def new(cls, root: Path, writer: str) -> Self:
        """An empty spool with a number that none of this writer has."""
        used = [int(one["seq"]) for _, one in _found(root) if one["writer"] == writer]
        path = root / f".events-{writer}-{max(used, default=-1) + 1}.jsonl"
        draft = path.with_suffix(".new")
        with errors_name(path):
            handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
            draft.replace(path)  # locked before others can find it
        return cls(path, handle)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows and wait until they are on the disk; if that fails, nothing of them is left."""
        size = os.fstat(self.handle).st_size
        with errors_name(self.path):
            try:
                os.lseek(self.handle, 0, os.SEEK_END)
                _write(self.handle, "".join(json.dumps(row) + "\n" for row in rows).encode())
                os.fsync(self.handle)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self.handle, size)
                raise

    def rows(self) -> list[dict[str, Any]]:
        """All rows; what a killed writer left of the last line is not one."""
        *lines, _ = os.pread(self.handle, os.fstat(self.handle).st_size, 0).split(b"\n")
        return [row for line in lines if isinstance(row := _parsed(line), dict)]

    def remove(self) -> None:
        """Delete the file and release the lock."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release the lock; the file stays for the next writer."""
        os.close(self.handle)


def left_spools(root: Path) -> Iterator[Spool]:
    """Spools of writers that no longer run, locked."""
    for path, _ in _found(root):
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDWR)
            if _locked(handle) and os.path.samestat(os.fstat(handle), path.stat()):
                yield Spool(path, handle)
            else:
                os.close(handle)


def waiting_events(root: Path) -> int:
    """Events on the disk that are in no part yet."""
    return sum(path.read_bytes().count(b"\n") for path, _ in _found(root))


def _found(root: Path) -> list[tuple[Path, re.Match[str]]]:
    paths = sorted(root.glob(".events-*.jsonl"))
    return [(path, match) for path in paths if (match := NAME.fullmatch(path.name))]


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
