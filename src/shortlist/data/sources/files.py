"""Input files that can be opened repeatedly: plain, compressed (.gz, .xz) or inside a zip."""

import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from shortlist.errors import DataError

DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class File:
    """A file; a member of a zip has the name `archive.zip:member`."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The decompressed bytes; an error of a damaged file becomes a `DataError`."""
        try:
            with self._open() as stream:
                yield stream
        except DAMAGE as error:
            raise DataError(
                f"{self.name}: cannot be read to its end ({_brief(error)}); "
                "it is truncated or damaged, download it again"
            ) from error

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.member:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                yield cast(BinaryIO, stream)
        else:
            with OPENERS.get(self.path.suffix, Path.open)(self.path, "rb") as stream:
                yield stream


def one_file(path: Path | str) -> File:
    """A file that must exist and must not be empty."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: not found; expected a file")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; expected a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: is empty; expected at least one line")
    return File(path)


def find_file(path: Path | str, name: str) -> File | None:
    """The file `name` in a folder (or one below), in a zip, or next to a given file; None if there is none."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: not found; expected a folder, a zip or a file")
    if path.is_file() and path.suffix == ".zip":
        return next((File(path, one) for one in members(path) if PurePosixPath(one).name == name), None)
    folder = path if path.is_dir() else path.parent
    candidates = [folder / name, *sorted(folder.glob(f"*/{name}") if path.is_dir() else ())]
    return next((one_file(candidate) for candidate in candidates if candidate.is_file()), None)


def require_file(path: Path | str, names: Sequence[str]) -> File:
    """The first of `names` that exists; if `path` is itself one of them, that file."""
    given = Path(path)
    for name in (given.name,) if given.name in names and given.is_file() else names:
        found = find_file(path, name)
        if found is not None:
            return found
    raise DataError(f"{path}: expected one of {', '.join(names)} in it, found none; check the path")


def members(path: Path) -> list[str]:
    """The files of a zip; a name that points outside of it is refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: is not a complete zip file ({_brief(error)}); download it again") from error
    for entry in entries:
        _refuse_unsafe(path, entry)
    return [entry.filename for entry in entries if not entry.is_dir()]


def _refuse_unsafe(path: Path, entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    inside = PurePosixPath(name.replace("\\", "/"))
    if inside.is_absolute() or ".." in inside.parts or (inside.parts[:1] and inside.parts[0].endswith(":")):
        raise DataError(f"{path}: holds a member named {name!r}, which points outside of it; do not trust it")
    if entry.flag_bits & 1:
        raise DataError(f"{path}:{name}: is encrypted; expected a plain zip")


def _brief(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
