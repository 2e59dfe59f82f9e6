"""`shortlist diagnose` opens a bundle once and splits a data set once."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.artifact import Artifact, load, store
from shortlist.cli import app
from shortlist.data import Dataset


def test_diagnose_reads_each_file_of_the_bundle_once(
    bundle: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = set(load(bundle).manifest["files"])
    hashed, read, splits = Counter[str](), Counter[str](), Counter[str]()
    original_hash, original_path, original_split = store._hash, Artifact._path, Dataset.split

    def count_hash(path: Path) -> str:
        if path.is_relative_to(bundle):
            hashed[str(path.relative_to(bundle))] += 1
        return original_hash(path)

    def count_read(self: Artifact, name: str) -> Path:
        if self.folder == bundle:
            read[name] += 1
        return original_path(self, name)

    def count_split(self: Dataset, *given: object, **named: object) -> object:
        splits["split"] += 1
        return original_split(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_hash", count_hash)
    monkeypatch.setattr(Artifact, "_path", count_read)
    monkeypatch.setattr(Dataset, "split", count_split)
    answer = CliRunner().invoke(
        app, ["diagnose", str(bundle), "--data", str(data_folder), "--users", "20", "--json"]
    )
    assert answer.exit_code == 0, answer.output
    assert hashed == dict.fromkeys(files, 1)
    assert set(read.values()) == {1}
    assert splits["split"] == 1
