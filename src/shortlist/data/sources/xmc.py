"""Multi-label text (XMC): a header `rows features labels`, then `label,label feature:value ...`."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.files import File, one_file
from shortlist.data.tables.layout import is_number
from shortlist.data.tables.to_events import compact_ids
from shortlist.errors import DataError

Sizes = tuple[int, int, int]


def read_xmc(path: Path | str) -> RawEvents:
    """Read documents as users (0, 1, ...) and their labels as items; there are no times."""
    file = one_file(path)
    (_, _, n_labels), labels, _ = _parts(file)
    counts = np.array([text.count(b",") + 1 if text else 0 for text in labels], np.int64)
    items = _integers(file, b",".join(text for text in labels if text), n_labels)
    users = np.repeat(np.arange(len(labels)), counts)
    empty = int(np.count_nonzero(counts == 0))
    dropped = {"document without labels": empty} if empty else {}
    return RawEvents(
        compact_ids(pa.array(users)), compact_ids(pa.array(items)), read=len(items) + empty, dropped=dropped
    )


def read_features(path: Path | str) -> sparse.csr_matrix:
    """Read the features of the documents [rows, features]; row i belongs to user i of `read_xmc`."""
    file = one_file(path)
    (rows, n_features, _), _, texts = _parts(file)
    counts = np.array([text.count(b":") for text in texts], np.int64)
    columns, values = _pairs(file, b"\n".join(text.replace(b" ", b"\n") for text in texts if text))
    if len(columns) != counts.sum() or (len(columns) and columns.max() >= n_features):
        raise _refusal(file, n_features, None)
    starts = np.append(0, np.cumsum(counts))
    return sparse.csr_matrix((values, columns, starts), shape=(rows, n_features))


def _parts(file: File) -> tuple[Sizes, list[bytes], list[bytes]]:
    """The header, and the labels and features of every document as text."""
    with file.opened() as stream:
        sizes = _sizes(file, stream.readline())
        lines = [line.rstrip(b"\r\n").partition(b" ") for line in stream]
    if len(lines) != sizes[0]:
        raise DataError(
            f"{file.name}:1: expected {sizes[0]:,} documents as the header says, got {len(lines):,}; "
            "the file is truncated, download it again"
        )
    return sizes, [labels for labels, _, _ in lines], [features.strip() for _, _, features in lines]


def _sizes(file: File, header: bytes) -> Sizes:
    words = header.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise DataError(
            f"{file.name}:1: expected a header 'rows features labels', got {header[:40]!r}; check the file"
        )
    return int(words[0]), int(words[1]), int(words[2])


def _integers(file: File, text: bytes, below: int) -> NDArray[np.int64]:
    try:
        found = pc.cast(pa.array(text.decode("latin-1").split(",") if text else [], pa.string()), pa.int64())
    except pa.ArrowInvalid as error:
        raise _refusal(file, None, below) from error
    values: NDArray[np.int64] = found.to_numpy()
    if len(values) and (values.min() < 0 or values.max() >= below):
        raise _refusal(file, None, below)
    return values


def _pairs(file: File, text: bytes) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """All `feature:value` pairs, one per line, read by Arrow."""
    if not text:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    kinds = {"feature": pa.int32(), "value": pa.float32()}
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(text),
            arrow_csv.ReadOptions(column_names=list(kinds)),
            arrow_csv.ParseOptions(delimiter=":", quote_char=False),
            arrow_csv.ConvertOptions(column_types=kinds),
        )
    except pa.ArrowInvalid as error:
        raise _refusal(file, None, None) from error
    columns, values = table["feature"].to_numpy(), table["value"].to_numpy()
    if table["feature"].null_count or table["value"].null_count or not np.isfinite(values).all():
        raise _refusal(file, None, None)
    return columns, values


def _refusal(file: File, n_features: int | None, n_labels: int | None) -> DataError:
    """The error for the first bad line, found by a slow second pass."""
    for line, problem in _problems(file, n_features, n_labels):
        return DataError(f"{file.name}:{line}: {problem}; fix the line or download the file again")
    return DataError(f"{file.name}: cannot be read as multi-label text; check the file")


def _problems(file: File, n_features: int | None, n_labels: int | None) -> Iterator[tuple[int, str]]:
    _, labels, features = _parts(file)
    for line, (label, feature) in enumerate(zip(labels, features, strict=True), start=2):
        for word in label.split(b",") if label else ():
            if not word.isdigit() or (n_labels is not None and int(word) >= n_labels):
                yield line, f"expected a label below {n_labels or 'the header count'}, got {word[:40]!r}"
        for pair in feature.split():
            name, colon, value = pair.partition(b":")
            fits = name.isdigit() and (n_features is None or int(name) < n_features)
            if not (colon and fits and is_number(value.decode("latin-1"))):
                yield line, f"expected feature:value, got {pair[:40]!r}"
