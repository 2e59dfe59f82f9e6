"""The files of one log: a file, several, a folder, a pattern, a zip or a binary stream."""

import glob
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias

from shortlist.data.tables.files import File, members, one_file
from shortlist.data.tables.table_file import has_table_suffix
from shortlist.errors import DataError

PATTERN = set("*?[")
Source: TypeAlias = Path | str | BinaryIO


def log_files(source: Source | Sequence[Source]) -> tuple[File, ...]:
    """All files in the order given; those of a folder, a pattern or a zip sorted by name."""
    several = source if isinstance(source, Sequence) and not isinstance(source, str) else (source,)
    found = [file for one in several for file in _files(one)]
    if not found:
        raise DataError("expected at least one file, got an empty list of paths")
    return tuple(found)


def _files(source: Source) -> list[File]:
    if not isinstance(source, Path | str):
        return [one_file(source)]
    path = Path(source)
    if not path.exists() and PATTERN & set(str(source)):
        return _matches(str(source))
    if path.is_dir():
        return _in_folder(path)
    return _in_zip(path) if path.suffix == ".zip" and path.is_file() else [one_file(path)]


def _matches(pattern: str) -> list[File]:
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    found = [file for path in paths if path.is_file() for file in _files(path)]
    if not found:
        raise DataError(f"{pattern}: no file matches this pattern; check it (quote it in a shell)")
    return found


def _in_folder(folder: Path) -> list[File]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [file for path in paths if _visible(path.relative_to(folder).parts) for file in _files(path)]
    if not found:
        raise DataError(f"{folder}: is a folder without files; expected at least one file of events")
    return found


def _in_zip(path: Path) -> list[File]:
    found = [File(path, name) for name in sorted(members(path)) if _visible(PurePosixPath(name).parts)]
    if not found:
        raise DataError(f"{path}: is a zip without files; expected at least one file of events")
    # A README beside the events is no log; without any suffix of a table every member is one.
    return [file for file in found if has_table_suffix(file)] or found


def _visible(parts: Sequence[str]) -> bool:
    """Not `.hidden`, `_SUCCESS` of Spark or `__MACOSX` of a zip."""
    return not any(part.startswith((".", "_")) for part in parts)
