"""Fixtures that write small files and find the real data sets."""

import gzip
import os
from pathlib import Path

import pytest


@pytest.fixture
def put(tmp_path):
    """Write a small file and return its path; a name that ends in .gz is compressed."""

    def write(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        blob = text.encode() if isinstance(text, str) else text
        path.write_bytes(gzip.compress(blob) if name.endswith(".gz") else blob)
        return path

    return write


@pytest.fixture
def real():
    """The folder of real data sets."""
    root = os.environ.get("SHORTLIST_DATA", "")
    if not root or not Path(root).is_dir():
        pytest.skip("SHORTLIST_DATA does not point at the real data sets")

    def find(name: str) -> Path:
        path = Path(root, name)
        if not path.exists():
            pytest.skip(f"SHORTLIST_DATA holds no {name}")
        return path

    return find


@pytest.fixture
def events_of():
    """Events as plain tuples (user, item, time, weight)."""

    def tuples(raw):
        times = raw.times.tolist() if raw.times is not None else [None] * len(raw)
        weights = raw.weights.tolist() if raw.weights is not None else [None] * len(raw)
        return list(zip(raw.users.to_pylist(), raw.items.to_pylist(), times, weights, strict=True))

    return tuples
