"""Input files that can be opened repeatedly: plain, compressed, or inside a zip."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from shortlist.data.tables.encodings import as_utf8, marked_encoding
from shortlist.errors import DataError

DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
SPREADSHEETS = (".xlsx", ".xls", ".ods")


def _zstd(stream: BinaryIO) -> io.BufferedReader:
    return io.BufferedReader(pa.input_stream(pa.PythonFile(stream, mode="r"), compression="zstd"))


OPENERS: Mapping[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
    ".zstd": _zstd,
}
MAGIC = {b"\x1f\x8b\x08": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"(\xb5/\xfd": ".zst"}


@dataclass(frozen=True)
class File:
    """A file; a member of a zip has the name `archive.zip:member`.

    `encoding` is that of its text; empty: UTF-8, or what a byte-order mark says. `blob` holds the bytes of a stream,
    which can be read only once.
    """

    path: Path
    member: str = ""
    encoding: str = ""
    blob: bytes | None = None

    @property
    def name(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file name without those of a compression."""
        return [end for end in PurePosixPath(self.member or self.path).suffixes if end not in OPENERS]

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The decompressed text as UTF-8; an error of a damaged file becomes a `DataError`."""
        with self.binary() as stream:
            encoding = self.encoding or marked_encoding(cast(Any, stream).peek(4)[:4])
            yield as_utf8(stream, encoding, self.name)

    @contextmanager
    def binary(self) -> Iterator[BinaryIO]:
        """The decompressed bytes."""
        try:
            with self._open() as stream, self._decompressed(stream) as plain:
                yield plain
        except DAMAGE as error:
            raise DataError(
                f"{self.name}: cannot be read to its end ({_brief(error)}); "
                "it is truncated or damaged, download it again"
            ) from error

    @contextmanager
    def _open(self) -> Iterator[Any]:
        if self.member:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                yield stream
        elif self.blob is not None:
            yield io.BufferedReader(cast(Any, io.BytesIO(self.blob)))
        else:
            with self.path.open("rb") as stream:
                yield stream

    def _decompressed(self, stream: Any) -> Any:
        """By the suffix, else by the first bytes: a file may have lost its suffix."""
        start = stream.peek(8)
        magic = next((end for mark, end in MAGIC.items() if start.startswith(mark)), "")
        end = PurePosixPath(self.member or self.path).suffix
        opener = OPENERS.get(end if end in OPENERS else magic)
        return opener(stream) if opener else stream


def one_file(path: Path | str | BinaryIO) -> File:
    """A file that must exist and must not be empty; a binary stream is read to its end."""
    if not isinstance(path, Path | str):
        return _from_stream(path)
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: not found; expected a file")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; expected a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: is empty; expected at least one line")
    if path.suffix.lower() in SPREADSHEETS:
        raise DataError(
            f"{path}: is a spreadsheet; expected CSV, TSV, JSON lines or Parquet; export it as CSV"
        )
    return File(path)


def _from_stream(stream: BinaryIO) -> File:
    if not hasattr(stream, "read"):
        raise DataError(
            f"expected a path, a binary stream or a data frame with an Arrow stream, got {type(stream).__name__}; "
            "pyarrow.table(...) makes one from a dict of columns"
        )
    name, blob = Path(str(getattr(stream, "name", "<stream>"))), stream.read()
    if not isinstance(blob, bytes):
        raise DataError(f"{name}: expected a binary stream, got text; open it with mode 'rb'")
    if not blob:
        raise DataError(f"{name}: is empty; expected at least one line")
    return File(name, blob=blob)


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
