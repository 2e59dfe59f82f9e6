"""The instances of the DTR paper: `user|69 ids, -1 = padding|label,label,...`, oldest first."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import File, find_file, one_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import compact_ids
from shortlist.errors import DataError

PADDING = -1
PARTS = ("train_instances", "validation_instances", "test_instances")
KINDS = {"user": "integer", "history": "list", "labels": "list"}


def read_dtr(path: Path | str, bad_lines: str = "refuse") -> RawEvents:
    """Read one file of instances or all of a folder; events have an order and no times: history, then labels."""
    layout = Layout(tuple(KINDS), KINDS, "|")
    tables = [read_delimited(file, layout, bad_lines) for file in _files(Path(path))]
    users, items = (pa.chunked_array(parts) for parts in zip(*map(_events, tables), strict=True))
    rejects = tuple(reject for found in tables for reject in found.rejects)
    dropped = {"unparsable line": len(rejects)} if rejects else {}
    read = len(users) + len(rejects)
    return RawEvents(compact_ids(users), compact_ids(items), read=read, dropped=dropped, rejects=rejects)


def _files(path: Path) -> list[File]:
    if not path.is_dir():
        return [one_file(path)]
    files = [file for part in PARTS if (file := find_file(path, part))]
    if not files:
        raise DataError(f"{path}: expected one of {', '.join(PARTS)} in it, found none; check the path")
    return files


def _events(found: ParsedTable) -> tuple[pa.Array, pa.Array]:
    """Users and items of one file, without the padding."""
    history, labels = (_lists(found.table[name]) for name in ("history", "labels"))
    counts = np.stack([_lengths(history), _lengths(labels)], axis=1)  # [rows, 2]
    both = np.concatenate([np.asarray(history.flatten()), np.asarray(labels.flatten())])
    items = both[_interleaved(counts)]
    users = np.repeat(found.table["user"].to_numpy(), counts.sum(1))
    real = items != PADDING
    return pa.array(users[real]), pa.array(items[real])


def _lists(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    filled = pc.split_pattern(pc.if_else(pc.equal(whole, ""), str(PADDING), whole), ",")
    return pc.cast(filled, pa.list_(pa.int64()))


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.list_value_length(lists)).astype(np.int64)


def _interleaved(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in (all histories, all labels) that give history and labels of row 0, of row 1, ..."""
    starts = np.cumsum(counts, axis=0) - counts
    starts[:, 1] += counts[:, 0].sum()
    flat = counts.ravel()
    ends = np.cumsum(flat)
    shifts: NDArray[np.int64] = np.repeat(starts.ravel() - (ends - flat), flat)
    return np.arange(len(shifts)) + shifts
