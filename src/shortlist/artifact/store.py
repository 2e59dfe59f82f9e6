"""Artifacts: folders that are written atomically and verified before use: manifest, sha256, safetensors, Parquet."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file as map_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from shortlist.artifact.staging import MANIFEST, current_folder, staged
from shortlist.errors import ArtifactError

SCHEMA_VERSION = 2
REMEDIES = {  # how to make an artifact of a kind again
    "dataset": "prepare the data again with: shortlist data prepare",
    "recommender": "train again with: shortlist train",
}
MAX_MANIFEST = 4 << 20
MAX_HEADER = 1 << 20  # bytes of a safetensors header; ours are a few kilobytes


@dataclass(frozen=True)
class Lineage:
    """Provenance of an artifact: enough to make it again."""

    data: str = ""  # fingerprint of the data it was made from
    seed: int = 0
    package: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """A verified folder; its files are read on demand."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def version(self) -> str:
        """A short hash of the files."""
        return _digest(json.dumps(self.manifest["files"], sort_keys=True).encode())[:12]

    @property
    def lineage(self) -> Lineage:
        return Lineage(**self.manifest["lineage"])

    @property
    def about(self) -> Mapping[str, Any]:
        """Facts about the artifact, given by its writer."""
        about: Mapping[str, Any] = self.manifest["about"]
        return about

    def __contains__(self, name: str) -> bool:
        return name in self.manifest["files"]

    def check(self, prefix: str) -> None:
        """Verify the files with this prefix, which `load` left for later."""
        for name, facts in self.manifest["files"].items():
            if name.startswith(prefix):
                _check_file(self.folder / name, facts)

    def text(self, name: str) -> str:
        try:
            return self._path(name).read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{self.folder / name}: is not UTF-8 text ({error})") from error

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def table(self, name: str) -> pa.Table:
        try:
            return pq.read_table(self._path(name))
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.folder / name}: is not a Parquet file ({error})") from error

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Memory-mapped tensors: pages are read on first access and shared between processes.

        Writing to a tensor copies the page and never changes the file. The file may be replaced or removed, but must
        not be modified in place.
        """
        mapped: dict[str, Tensor] = map_tensors(self._path(name))
        return mapped

    def _path(self, name: str) -> Path:
        if name not in self:
            raise ArtifactError(
                f"{self.folder}: holds no {name!r}; it has {', '.join(sorted(self.manifest['files']))}"
            )
        return self.folder / name


Part: TypeAlias = str | bytes | pa.Table | Mapping[str, Tensor]


def save(
    folder: Path | str,
    kind: str,
    parts: Mapping[str, Part],
    lineage: Lineage,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Artifact:
    """Write `parts` (file name -> text, bytes, table or tensors) atomically: `folder` is complete or absent."""
    folder = Path(folder)
    _check_names(folder, parts)
    with staged(folder, overwrite) as staging:
        files = {name: _write(staging, name, part) for name, part in sorted(parts.items())}
        manifest = _manifest(kind, lineage, about or {}, files)
        _write(staging, MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return Artifact(folder, manifest)


def load(folder: Path | str, kind: str | None = None, later: str | None = None) -> Artifact:
    """Verify every file of a folder and open it; an error names the file and the failed check.

    Files whose names begin with `later` are verified by `Artifact.check(later)`, when they are needed.

    After a writer was killed, the backup of the old artifact is opened; the next save restores it.
    """
    folder = current_folder(Path(folder))
    manifest = _read_manifest(folder)
    if kind is not None and manifest["kind"] != kind:
        made = f"; give a folder made by `{REMEDIES[kind].rpartition(': ')[2]}`" if kind in REMEDIES else ""
        raise ArtifactError(f"{folder / MANIFEST}: expected kind {kind!r}, got {manifest['kind']!r}{made}")
    _check_names(folder, manifest["files"])
    _check_listing(folder, manifest["files"])
    for name, facts in manifest["files"].items():
        if later is None or not name.startswith(later):
            _check_file(folder / name, facts)
    return Artifact(folder, manifest)


def _manifest(
    kind: str, lineage: Lineage, about: Mapping[str, Any], files: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest as JSON reads it back, so that its digest is the same when written and when read."""
    values = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "lineage": asdict(lineage),
        "about": dict(about),
        "files": files,
    }
    manifest: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    return {**manifest, "digest": _digest_of(manifest)}


def _write(staging: Path, name: str, part: Part) -> dict[str, Any]:
    path = staging / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(part, pa.Table):
        pq.write_table(part, path, compression="zstd")
    else:
        path.write_bytes(_as_bytes(part))
    if path.suffix == ".safetensors":
        _check_tensors(path)
    return {"bytes": path.stat().st_size, "sha256": _hash(path)}


def _as_bytes(part: str | bytes | Mapping[str, Tensor]) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, bytes):
        return part
    # Every tensor is copied: safetensors refuses tensors that share memory.
    blob: bytes = save_tensors(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in part.items()}
    )
    return blob


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir() or not path.is_file():
        raise ArtifactError(
            f"{path}: not found; expected the manifest of a folder made by `shortlist data prepare` or "
            "`shortlist train`"
        )
    if path.is_symlink() or path.stat().st_size > MAX_MANIFEST:
        raise ArtifactError(f"{path}: is a link or larger than {MAX_MANIFEST} bytes")
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: is not JSON ({error}); the artifact is damaged") from error
    if not isinstance(manifest, dict):
        raise ArtifactError(f"{path}: expected a JSON object, got {type(manifest).__name__}; it is damaged")
    _check_schema(path, manifest)
    _check_manifest(path, manifest)
    return manifest


def _check_schema(path: Path, manifest: Mapping[str, Any]) -> None:
    version = manifest.get("schema_version")
    if version == 1:
        remedy = REMEDIES.get(str(manifest.get("kind")), "make it again")
        raise ArtifactError(
            f"{path}: written by shortlist before 0.2.0, which this version cannot read; {remedy}"
        )
    if version != SCHEMA_VERSION:
        raise ArtifactError(
            f"{path}: expected schema_version {SCHEMA_VERSION}, got {version!r}; written by another version"
        )


def _check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    expected = {"kind": str, "lineage": dict, "about": dict, "files": dict, "digest": str}
    wrong = [key for key, kind in expected.items() if not isinstance(manifest.get(key), kind)]
    if wrong:
        raise ArtifactError(f"{path}: lacks {', '.join(wrong)}; the artifact is damaged")
    if manifest["digest"] != _digest_of(manifest):
        raise ArtifactError(f"{path}: its digest does not match its content; the manifest is damaged")
    if set(manifest["lineage"]) != {one.name for one in fields(Lineage)}:
        raise ArtifactError(
            f"{path}: expected a lineage of data, seed, package, config; got {manifest['lineage']}"
        )
    for name, facts in manifest["files"].items():
        if not isinstance(facts, dict) or set(facts) != {"bytes", "sha256"}:
            raise ArtifactError(f"{path}: expected bytes and sha256 of {name!r}, got {facts!r}")


def _check_names(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or name != str(path) or name in (".", MANIFEST):
            raise ArtifactError(
                f"{folder / MANIFEST}: lists {name!r}; expected the path of a file inside the artifact"
            )


def _check_listing(folder: Path, files: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for root, folders, names in os.walk(folder):
        for entry in folders + names:
            path = Path(root, entry)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                what = "a symbolic link" if path.is_symlink() else "neither a file nor a folder"
                raise ArtifactError(f"{path}: is {what}; an artifact holds plain files only")
        seen.update(str(Path(root, name).relative_to(folder)) for name in names)
    extra = seen - set(files) - {MANIFEST}
    if extra:
        raise ArtifactError(
            f"{folder / min(extra)}: is not listed in the manifest; remove it or make the artifact again"
        )
    missing = set(files) - seen
    if missing:
        raise ArtifactError(
            f"{folder / min(missing)}: is listed in the manifest but missing; the artifact is damaged"
        )


def _check_file(path: Path, facts: Mapping[str, Any]) -> None:
    size = path.stat().st_size
    if size != facts["bytes"]:
        raise ArtifactError(
            f"{path}: expected {facts['bytes']} bytes, found {size}; the file is truncated or changed"
        )
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
        tensors = map_tensors(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ArtifactError(f"{path}: is not a safetensors file ({error})") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ArtifactError(f"{path}: tensor {name!r} holds NaN or infinite weights")


def _digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of a manifest without its own `digest` entry."""
    values = {key: value for key, value in manifest.items() if key != "digest"}
    return _digest(json.dumps(values, sort_keys=True).encode())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()
