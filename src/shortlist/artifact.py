"""A folder on disk that is either whole or not there: a manifest, hashes, safetensors and Parquet, no code."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from shortlist.errors import ArtifactError

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
MAX_MANIFEST = 4 << 20
MAX_HEADER = 1 << 20  # bytes of a safetensors header; ours are a few kilobytes
STAGING = ".staging-"


@dataclass(frozen=True)
class Lineage:
    """Where an artifact comes from: enough to make it again."""

    data: str = ""  # fingerprint of the data it was made from
    seed: int = 0
    package: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """A verified folder; what it holds is read on demand."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def version(self) -> str:
        """A short name for exactly these bytes."""
        return _digest(json.dumps(self.manifest["files"], sort_keys=True).encode())[:12]

    @property
    def lineage(self) -> Lineage:
        return Lineage(**self.manifest["lineage"])

    @property
    def about(self) -> Mapping[str, Any]:
        """What the maker of the artifact wanted to say of it."""
        about: Mapping[str, Any] = self.manifest["about"]
        return about

    def __contains__(self, name: str) -> bool:
        return name in self.manifest["files"]

    def text(self, name: str) -> str:
        return self._path(name).read_text("utf-8")

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self._path(name))

    def tensors(self, name: str) -> dict[str, Tensor]:
        loaded: dict[str, Tensor] = load_tensors(self._path(name).read_bytes())
        return loaded

    def _path(self, name: str) -> Path:
        if name not in self:
            raise ArtifactError(f"{self.folder}: holds no {name!r}; it has {', '.join(sorted(self.manifest['files']))}")
        return self.folder / name


Part = str | bytes | pa.Table | Mapping[str, Tensor]


def save(
    folder: Path | str,
    kind: str,
    parts: Mapping[str, Part],
    lineage: Lineage,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Artifact:
    """Write `parts` (file name -> text, bytes, table or tensors) so that `folder` appears whole or not at all."""
    folder = Path(folder)
    with staged(folder, overwrite) as staging:
        files = {name: _write(staging, name, part) for name, part in sorted(parts.items())}
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "kind": kind,
            "lineage": {
                "data": lineage.data,
                "seed": lineage.seed,
                "package": lineage.package,
                "config": dict(lineage.config),
            },
            "about": dict(about or {}),
            "files": files,
        }
        _write(staging, MANIFEST, json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n")
    return Artifact(folder, manifest)


def load(folder: Path | str, kind: str | None = None) -> Artifact:
    """Open a folder after checking all of it; the error names the file and the check that failed."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    if kind is not None and manifest["kind"] != kind:
        raise ArtifactError(f"{folder / MANIFEST}: expected kind {kind!r}, got {manifest['kind']!r}")
    _check_listing(folder, manifest["files"])
    for name, facts in manifest["files"].items():
        _check_file(folder / name, facts)
    return Artifact(folder, manifest)


@contextmanager
def staged(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write into that takes the name `folder` when the block ends well, and vanishes when it does not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    _check_target(folder, overwrite)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}{STAGING}{os.getpid()}-", dir=folder.parent))
    try:
        yield staging
        staging.chmod(0o755)
        _sync_tree(staging)
        _swap(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check_target(folder: Path, overwrite: bool) -> None:
    if folder.is_symlink() or folder.is_file():
        raise ArtifactError(f"{folder}: is a {'link' if folder.is_symlink() else 'file'}; expected a folder to write to")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).is_file():
        raise ArtifactError(f"{folder}: holds files that are not an artifact; choose another folder")
    if not overwrite:
        raise ArtifactError(f"{folder}: already holds an artifact; choose another folder or ask to overwrite it")


def _sweep(folder: Path) -> None:
    """Mend what a killed writer left: its staging folder goes, an old artifact it had set aside comes back."""
    if not folder.exists() and _aside(folder).is_dir():
        _aside(folder).rename(folder)
    for left in folder.parent.glob(f".{folder.name}{STAGING}*"):
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


def _write(staging: Path, name: str, part: Part) -> dict[str, Any]:
    path = staging / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(part, pa.Table):
        pq.write_table(part, path, compression="zstd")
    else:
        path.write_bytes(_as_bytes(part))
    return {"bytes": path.stat().st_size, "sha256": _hash(path)}


def _as_bytes(part: str | bytes | Mapping[str, Tensor]) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, bytes):
        return part
    blob: bytes = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in part.items()})
    return blob


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
    old = _aside(folder)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    staging.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir() or not path.is_file():
        raise ArtifactError(f"{path}: not found; expected the manifest of an artifact")
    if path.is_symlink() or path.stat().st_size > MAX_MANIFEST:
        raise ArtifactError(f"{path}: is a link or larger than {MAX_MANIFEST} bytes")
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: is not JSON ({error}); the artifact is damaged") from error
    if not isinstance(manifest, dict) or manifest.get("schema_version") != SCHEMA_VERSION:
        found = manifest.get("schema_version") if isinstance(manifest, dict) else type(manifest).__name__
        raise ArtifactError(f"{path}: expected schema_version {SCHEMA_VERSION}, got {found!r}; made by another version")
    wrong = [key for key in ("kind", "lineage", "about", "files") if key not in manifest]
    if wrong:
        raise ArtifactError(f"{path}: lacks {', '.join(wrong)}; the artifact is damaged")
    return manifest


def _check_listing(folder: Path, files: Mapping[str, Any]) -> None:
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ArtifactError(f"{folder / MANIFEST}: lists {name!r}, which lies outside the artifact")
    seen: set[str] = set()
    for root, folders, names in os.walk(folder):
        for entry in folders + names:
            path = Path(root, entry)
            if path.is_symlink():
                raise ArtifactError(f"{path}: is a symbolic link; an artifact holds plain files only")
        seen.update(str(Path(root, name).relative_to(folder)) for name in names)
    extra = seen - set(files) - {MANIFEST}
    if extra:
        raise ArtifactError(f"{folder / min(extra)}: is not listed in the manifest; remove it or make the artifact again")
    missing = set(files) - seen
    if missing:
        raise ArtifactError(f"{folder / min(missing)}: is listed in the manifest but missing; the artifact is damaged")


def _check_file(path: Path, facts: Mapping[str, Any]) -> None:
    size = path.stat().st_size
    if size != facts["bytes"]:
        raise ArtifactError(f"{path}: expected {facts['bytes']} bytes, found {size}; the file is cut or changed")
    if _hash(path) != facts["sha256"]:
        raise ArtifactError(f"{path}: its sha256 differs from the manifest; the file is damaged")
    if path.suffix == ".safetensors":
        _check_tensors(path)


def _check_tensors(path: Path) -> None:
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > MAX_HEADER:
        raise ArtifactError(f"{path}: safetensors header of {header} bytes, at most {MAX_HEADER} allowed")
    try:
        tensors = load_tensors(path.read_bytes())
    except SafetensorError as error:
        raise ArtifactError(f"{path}: is not a safetensors file ({error})") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ArtifactError(f"{path}: tensor {name!r} holds NaN or infinite weights")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()
