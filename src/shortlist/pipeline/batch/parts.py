"""Finished parts of a batch on disk, so that a stopped run can be resumed."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from shortlist.artifact.staging import write_whole

KEY = "key.json"


@dataclass(frozen=True)
class Parts:
    """A hidden folder beside the output, with one Arrow file per finished part."""

    folder: Path

    @classmethod
    def open(cls, out: Path, key: Mapping[str, Any] | None) -> "Parts":
        """The parts of an earlier run with the same key; without one, or with another key, an empty folder."""
        folder = parts_folder(out)
        stored = folder / KEY
        text = json.dumps(key, sort_keys=True, indent=1)
        if key is None or not stored.is_file() or stored.read_text("utf-8") != text:
            shutil.rmtree(folder, ignore_errors=True)
            write_whole(stored, text)
        return cls(folder)

    def read(self, number: int) -> pa.RecordBatch | None:
        """The rows of a finished part; None if it is missing or damaged."""
        try:
            with pa.OSFile(str(self._path(number)), "rb") as file:
                return pa.ipc.open_file(file).get_batch(0)
        except (OSError, pa.ArrowInvalid):
            return None

    def write(self, number: int, rows: pa.RecordBatch) -> None:
        """Store a part, whole or not at all."""
        path = self._path(number)
        draft = path.with_suffix(".draft")
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_batch(rows)
        draft.replace(path)

    def remove(self) -> None:
        """Remove the folder: the output is complete."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.arrow"


def parts_folder(out: Path) -> Path:
    """The hidden folder of the parts of an output."""
    return out.with_name(f".{out.name}.parts")


def digest(ids: pa.Array) -> str:
    """A hash of the ids and their order."""
    found = hashlib.sha256(str(ids.type).encode())
    for start in range(0, len(ids), 1 << 16):
        found.update(json.dumps(ids[start : start + (1 << 16)].to_pylist()).encode())
    return found.hexdigest()[:16]
