"""One writer per folder: a lock file beside the folder, which the kernel releases when its process ends."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from shortlist.artifact.os_errors import errors_name
from shortlist.errors import ArtifactError

_HELD: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Lock files that this thread holds, so that a writer inside a longer work does not wait for itself."""


@contextmanager
def only_writer(folder: Path, inside: bool = False) -> Iterator[None]:
    """Be the only writer of `folder` in the block; a second process or thread is refused at once.

    The lock file is `.NAME.lock` beside the folder, or `.lock` in it with `inside`. It is removed at the end, with the
    folders that were made for it and are still empty. A file system without locks is written to without one.
    """
    path = _lock_file(folder, inside)
    if path in _HELD.get():
        yield
        return
    with _made(path.parent, folder):
        with errors_name(folder):
            handle = _locked(path, folder)
        held = _HELD.set(_HELD.get() | {path})
        try:
            yield
        finally:
            _HELD.reset(held)
            with suppress(FileNotFoundError):
                path.unlink()
            os.close(handle)


def _lock_file(folder: Path, inside: bool) -> Path:
    named = Path(os.path.abspath(folder))  # "." has no name
    return named.resolve() / ".lock" if inside else named.parent.resolve() / f".{named.name}.lock"


@contextmanager
def _made(parent: Path, folder: Path) -> Iterator[None]:
    """Make a folder and those above it; at the end, remove the ones that are new and empty."""
    new = [one for one in (parent, *parent.parents) if not one.exists()]
    try:
        with errors_name(folder):
            parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with suppress(OSError):  # the first one that holds something ends it
            for one in new:
                one.rmdir()


def _locked(path: Path, folder: Path) -> int:
    """An open lock file with this process's number in it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle, folder)
            if _is_at(handle, path):
                os.ftruncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another writer finished and removed the file in between


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ArtifactError(
            f"{folder}: {_writer(handle)} is writing to it; wait until it has ended, or choose another path"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file still has this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _writer(handle: int) -> str:
    """The process that holds a lock, with its command where it can be read."""
    number = os.pread(handle, 32, 0).decode("ascii", "replace")
    if not number.isdecimal():
        return "another process"
    if int(number) == os.getpid():
        return "another thread of this process"
    with suppress(OSError):
        command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        return f"process {number} ({command.strip()[:200]})"
    return f"process {number}"
