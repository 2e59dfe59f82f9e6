"""The files of an event log: blocks with a checksum, each written once at the end of the last file."""

import hashlib
import json
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.artifact.lock import only_writer
from shortlist.artifact.os_errors import errors_name
from shortlist.artifact.staging import check_outside_artifacts
from shortlist.errors import ArtifactError
from shortlist.state.events.event import UserKey

EVENT = np.dtype([("user", "<i4"), ("item", "<i4"), ("time", "<i8"), ("id", "<u8")])
HEADER = struct.Struct("<4sIIQ16s")  # mark, bytes of text, events, number of the first event, digest
MARK = b"SLE1"
SEGMENT_BYTES = 64 << 20  # from which on a new file is begun, so that erasing a user rewrites few bytes
ERASED = np.array((-1, -1, 0, 0), EVENT)


@dataclass(frozen=True, eq=False)
class Block:
    """Events, and the ids of the users and items that are new in it."""

    first: int  # number of the first event
    events: NDArray[Any]  # [B] of EVENT
    first_user: int = 0  # number of the first new user
    users: Sequence[UserKey | None] = ()
    items: Sequence[int | str] = ()
    forgotten: tuple[int, int] | None = (
        None  # hash of a user who was forgotten, time of the newest event then
    )
    erased: int = -1  # the number of this user, -1 without one
    log: str = ""  # the identity of the log, in one of its blocks

    def packed(self) -> bytes:
        """The block as bytes."""
        text = b""
        if self.users or self.items or self.forgotten is not None or self.log:
            facts = {"first_user": self.first_user, "users": list(self.users), "items": list(self.items)}
            forgotten = {} if self.forgotten is None else {"forgotten": self.forgotten, "erased": self.erased}
            named = {"log": self.log} if self.log else {}
            text = json.dumps(facts | forgotten | named).encode()
        body = text + self.events.tobytes()
        digest = hashlib.blake2b(body, digest_size=16).digest()
        return HEADER.pack(MARK, len(text), len(self.events), self.first, digest) + body


class LogFile:
    """Appends blocks to the files of a folder, and erases users from them."""

    def __init__(self, folder: Path, sync: bool = False) -> None:
        self.folder, self.sync = folder, sync
        self.cut_bytes = 0  # of an unfinished block, which a killed process left
        self._file: FileIO | None = None
        self._end = 0  # of the last whole block
        self._starts = list[
            tuple[int, int]
        ]()  # of each file: number of the first event, of the first new user
        self._stale = dict[Path, set[int]]()  # files with users who were forgotten
        check_outside_artifacts(folder / "events")
        context, resources = (
            copy_context(),
            ExitStack(),
        )  # a lock is released in the context where it was taken
        context.run(resources.enter_context, only_writer(folder, inside=True))
        self._release = weakref.finalize(self, context.run, resources.close)

    def load(self, add: Callable[[list[Block], set[int]], None]) -> None:
        """Give the blocks of every file, and the users who were erased in it, to `add`; then be ready to append.

        An unfinished last block is cut off.
        """
        try:
            erased, users, rows, known = set[int](), dict[Path, set[int]](), 0, 0
            for path in self._numbered_paths():
                self._starts.append((rows, known))
                blocks = self._read(path, is_last=path == self.paths()[-1])
                _check_first(path, blocks, rows)
                gone = _erased(blocks, known)
                add(blocks, gone)
                users[path] = _users(blocks)
                erased |= gone
                rows += sum(len(block.events) for block in blocks)
                known += sum(len(block.users) for block in blocks)
            self._stale = {path: erased for path, own in users.items() if own & erased}
            if self._starts:
                self._open(self.paths()[-1])
            else:
                self._begin(rows, known)
            self.clean()  # finish what a killed process has begun
        except BaseException:
            self.close()
            raise

    def paths(self) -> list[Path]:
        """The files, oldest first."""
        return sorted(self.folder.glob("events-*.log"))

    def _numbered_paths(self) -> list[Path]:
        """The files, of which none may be missing before the last."""
        for number, path in enumerate(self.paths()):
            if path != self._path(number):
                raise ArtifactError(
                    f"{self._path(number)}: expected this file of the event log, got {path.name} as the next one; "
                    "restore the missing file from a copy"
                )
        return self.paths()

    def append(self, block: Block, sync: bool = False) -> None:
        """Write a block, to the disk with `sync`; after an error the file is as before."""
        if self._file is None:
            raise ArtifactError(f"{self.folder}: the event log is closed; open it again")
        data = block.packed()
        with errors_name(self.folder):
            if self._end >= SEGMENT_BYTES:
                self._begin(block.first, block.first_user)
            try:
                self._write(self._file, data)
                if sync or self.sync:
                    os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):  # else the next write begins at the same place
                    self._file.truncate(self._end)
                raise
        self._end += len(data)

    def forget(self, block: Block, rows: Sequence[int] | NDArray[np.integer[Any]]) -> None:
        """Write a block about a user who is forgotten to the disk; `rows` are the numbers of his events."""
        self.append(block, sync=True)
        if block.erased >= 0:
            firsts, users = np.array(self._starts).T
            at = {*np.searchsorted(firsts, rows, "right"), np.searchsorted(users, block.erased, "right")}
            for path in (self._path(int(number) - 1) for number in at):
                self._stale[path] = self._stale.get(path, set()) | {block.erased}

    def clean(self) -> None:
        """Erase users who were forgotten from the files that have them; after an error it can be called again."""
        last = self._path(len(self._starts) - 1)
        for path, numbers in list(self._stale.items()):
            try:
                _erase(path, numbers)
            finally:
                if path == last:
                    self._open_again(path)
            del self._stale[path]

    def close(self) -> None:
        """Release the folder."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._release()

    def _path(self, number: int) -> Path:
        return self.folder / f"events-{number:08d}.log"

    def _begin(self, row: int, user: int) -> None:
        """Have a new file open, which begins with these numbers of an event and of a new user."""
        self._open(self._path(len(self._starts)))
        self._starts.append((row, user))

    def _open_again(self, path: Path) -> None:
        """Have a file open that may have been replaced; nothing is ever appended to the replaced one."""
        try:
            self._open(path)
        except OSError:
            self.close()
            raise

    def _open(self, path: Path) -> None:
        """Have a file open for appending."""
        file = FileIO(path, "r+" if path.exists() else "x+")
        if self._file is not None:
            self._file.close()
        self._file, self._end = file, path.stat().st_size

    def _write(self, file: FileIO, data: bytes) -> None:
        at = self._end
        while data:
            written = os.pwrite(file.fileno(), data, at)
            at, data = at + written, data[written:]

    def _read(self, path: Path, is_last: bool) -> list[Block]:
        """The blocks of a file; what is left of an unfinished block at the end of the last file is cut off."""
        data = path.read_bytes()
        blocks, end = list[Block](), 0
        for block, stop in _blocks(data):
            if block is None:
                break
            blocks.append(block)
            end = stop
        if end < len(data):
            if not (is_last and _unfinished(data, end)):
                raise ArtifactError(
                    f"{path}: the block at byte {end} does not match its checksum and other data comes after it; the "
                    "file is damaged, restore it from a copy"
                )
            os.truncate(path, end)
            self.cut_bytes = len(data) - end
        return blocks


def _check_first(path: Path, blocks: Sequence[Block], row: int) -> None:
    """Every block follows the one before it."""
    for block in blocks:
        if block.first != row:
            raise ArtifactError(
                f"{path}: expected a block that begins with event {row}, got one that begins with {block.first}; "
                "blocks before it are missing, restore the files from a copy"
            )
        row += len(block.events)


def _erased(blocks: Sequence[Block], known: int) -> set[int]:
    """The numbers of users who were erased; one that had no id before its block was written is that of nobody."""
    found = set[int]()
    for block in blocks:
        known += len(block.users)
        found |= {block.erased} if 0 <= block.erased < known else set()
    return found


def _users(blocks: Sequence[Block]) -> set[int]:
    """The numbers of users with events or ids in these blocks."""
    events = [block.events["user"] for block in blocks]
    own = set(np.unique(np.concatenate([np.zeros(0, np.int32), *events])).tolist())
    for block in blocks:
        own |= {block.first_user + at for at, user in enumerate(block.users) if user is not None}
    return own


def _erase(path: Path, numbers: set[int]) -> None:
    """Replace the rows and the ids of users by empty ones."""
    parts, changed = list[bytes](), False
    for block, _ in _blocks(path.read_bytes()):
        assert block is not None, "the file was read when the log was opened"
        kept = _without(block, numbers)
        changed |= kept is not block
        parts.append(kept.packed())
    if changed:
        _replace(path, b"".join(parts))


def _blocks(data: bytes) -> Iterator[tuple[Block | None, int]]:
    """The blocks of a file with where they end; None at the first one that is unfinished or damaged."""
    at = 0
    while at < len(data):
        block, at = _block(data, at)
        yield block, at
        if block is None:
            return


def _block(data: bytes, at: int) -> tuple[Block | None, int]:
    if at + HEADER.size > len(data):
        return None, at
    mark, text_bytes, events, first, digest = HEADER.unpack_from(data, at)
    start = at + HEADER.size
    stop = start + text_bytes + events * EVENT.itemsize
    if mark != MARK or stop > len(data):
        return None, at
    body = memoryview(data)[start:stop]
    if hashlib.blake2b(body, digest_size=16).digest() != digest:
        return None, at
    facts = json.loads(bytes(body[:text_bytes])) if text_bytes else {}
    return Block(first, np.frombuffer(body[text_bytes:], EVENT), **facts), stop


def _unfinished(data: bytes, end: int) -> bool:
    """Whether what follows `end` is one block that was not written to its end, and no later block.

    An id may hold the mark, so what counts is a block that matches its checksum.
    """
    at = data.find(MARK, end + 1)
    while at >= 0:
        if _block(data, at)[0] is not None:
            return False
        at = data.find(MARK, at + 1)
    return True


def _without(block: Block, numbers: set[int]) -> Block:
    """The block without some users; the same object if it has nothing of them."""
    own = np.isin(block.events["user"], list(numbers))
    users = [None if block.first_user + at in numbers else user for at, user in enumerate(block.users)]
    if not own.any() and users == list(block.users):
        return block
    events = block.events.copy()
    events[own] = ERASED
    return replace(block, events=events, users=users)


def _replace(path: Path, data: bytes) -> None:
    """Replace a file whole."""
    draft = path.with_name(f".{path.name}.draft")
    with errors_name(path):
        try:
            with draft.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)  # a full disk needs its bytes
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
