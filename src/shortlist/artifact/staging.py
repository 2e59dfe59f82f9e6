"""A folder that takes its name only when it is whole, whatever kills the writer."""

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shortlist.errors import ArtifactError

MANIFEST = "manifest.json"
STAGING = ".staging-"


@contextmanager
def staged(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write into that takes the name `folder` when the block ends well, and vanishes when it does not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    check_target(folder, overwrite)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}{STAGING}{os.getpid()}-", dir=folder.parent))
    try:
        yield staging
        staging.chmod(0o755)
        _sync_tree(staging)
        _swap(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_target(folder: Path, overwrite: bool) -> None:
    """Raise unless an artifact may be written to `folder`."""
    if folder.is_symlink() or folder.is_file():
        raise ArtifactError(
            f"{folder}: is a {'link' if folder.is_symlink() else 'file'}; expected a folder to write to"
        )
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).is_file():
        raise ArtifactError(f"{folder}: holds files that are not an artifact; choose another folder")
    if not overwrite:
        raise ArtifactError(
            f"{folder}: already holds an artifact; choose another folder or ask to overwrite it"
        )


def _sweep(folder: Path) -> None:
    """Mend what a killed writer left: its staging folder goes, an old artifact it had set aside comes back."""
    if standing(folder) != folder:
        _aside(folder).rename(folder)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}{STAGING}*"):
        if not _alive(left.name.rpartition(STAGING)[2].partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def standing(folder: Path) -> Path:
    """Where the artifact is: under its name, or still set aside."""
    return _aside(folder) if not folder.exists() and _aside(folder).is_dir() else folder


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(root, name))
        _sync(Path(root))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(staging: Path, folder: Path) -> None:
    """Put `staging` where `folder` is; the old one stays whole beside it until the new one has the name."""
    _discard(_aside(folder), staging)
    if folder.exists():
        folder.rename(_aside(folder))
    staging.rename(folder)
    _sync(folder.parent)
    _discard(_aside(folder), staging)


def _discard(old: Path, staging: Path) -> None:
    """Remove what was set aside; it loses its name first, so that half of it is never taken for an artifact."""
    if old.is_dir():
        shutil.rmtree(old.rename(staging.with_name(f"{staging.name}-old")), ignore_errors=True)
