"""Atomic writes: a folder or file gets its name only when it is complete, even if the writer is killed."""

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shortlist.artifact.lock import only_writer
from shortlist.artifact.os_errors import errors_name, renamed
from shortlist.errors import ArtifactError

MANIFEST = "manifest.json"
STAGING = ".staging-"


@contextmanager
def staged(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that is renamed to `folder` when the block succeeds and removed when it fails.

    Only one process at a time writes to `folder`. An error of the operating system names `folder`.
    """
    with errors_name(folder), only_writer(folder):
        _clean_up(folder)
        check_target(folder, overwrite)
        staging = _staging_folder(folder)
        try:
            yield staging
            staging.chmod(0o755)
            _sync_tree(staging)
            _swap(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; an error of the operating system names `path`."""
    with errors_name(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
        try:
            draft.write_text(text, "utf-8")
            draft.replace(path)
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):
                draft.unlink()


def check_writable(path: Path, inside: bool = False) -> None:
    """Raise unless a file or folder `path` can be created or replaced: a probe beside it is created and removed.

    With `inside`, the probe is made in the folder `path`, or where it would be created.
    """
    probed = next(one for one in ([path] if inside else []) + list(path.absolute().parents) if one.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=f".{path.name}{STAGING}{os.getpid()}-", dir=probed))
    except OSError as error:
        raise renamed(error, path) from error


def check_target(folder: Path, overwrite: bool) -> None:
    """Raise unless an artifact may be written to `folder`."""
    check_outside_artifacts(folder)
    if _holds_current_folder(folder):
        raise ArtifactError(
            f"{folder}: is the current folder or holds it, and would be replaced; choose another folder, or run the "
            "command from elsewhere"
        )
    if folder.is_symlink() or folder.is_file():
        raise ArtifactError(
            f"{folder}: is a {'link' if folder.is_symlink() else 'file'}; expected a folder to write to"
        )
    found = current_folder(folder)
    if not found.exists() or not any(found.iterdir()):
        return
    if not (found / MANIFEST).is_file():
        raise ArtifactError(f"{folder}: holds files that are not an artifact; choose another folder")
    if not overwrite:
        raise ArtifactError(
            f"{folder}: already holds an artifact; choose another folder, or add --force to replace it"
        )


def check_outside_artifacts(path: Path) -> None:
    """Raise if `path` lies inside an artifact, which a further file would damage."""
    for folder in path.absolute().parents:
        manifest = folder / MANIFEST
        if manifest.is_file() and '"schema_version"' in manifest.read_text("utf-8", "replace"):
            raise ArtifactError(f"{path}: lies inside the artifact {folder}; choose a folder outside of it")


def _holds_current_folder(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder.resolve())
    except FileNotFoundError:  # the current folder was removed
        return False


def _staging_folder(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}{STAGING}{os.getpid()}-", dir=folder.parent))


def _clean_up(folder: Path) -> None:
    """Clean up after a killed writer: remove its staging folder, restore an old artifact it had renamed."""
    if current_folder(folder) != folder:
        _backup(folder).rename(folder)
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


def _backup(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def current_folder(folder: Path) -> Path:
    """The folder that holds the artifact: `folder`, or its backup after a killed writer."""
    return _backup(folder) if not folder.exists() and _backup(folder).is_dir() else folder


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
    """Rename `staging` to `folder`; the old folder stays complete as a backup until then."""
    _discard(_backup(folder), staging)
    if folder.exists():
        folder.rename(_backup(folder))
    staging.rename(folder)
    _sync(folder.parent)
    _discard(_backup(folder), staging)


def _discard(old: Path, staging: Path) -> None:
    """Remove a backup; it is renamed first, so that a half-removed folder is never taken for an artifact."""
    if old.is_dir():
        shutil.rmtree(old.rename(staging.with_name(f"{staging.name}-old")), ignore_errors=True)
