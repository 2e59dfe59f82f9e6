"""Lines of `user item item ...`: pairs as in SASRec, histories as in S3-Rec and LightGCN."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import one_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable, expanded
from shortlist.data.tables.to_events import to_events
from shortlist.errors import DataError

NEVER = "\x01"  # a delimiter that occurs in no line


def read_sequences(path: Path | str, bad_lines: str = "refuse") -> RawEvents:
    """Read histories, oldest first; a line with a user and no item is dropped and counted."""
    file = one_file(path)
    found = read_delimited(file, Layout(("line",), {"line": "text"}, NEVER), bad_lines)
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(found.table["line"].combine_chunks()))
    counts = np.asarray(pc.list_value_length(words)).astype(np.int64)
    lines = np.repeat(np.arange(len(counts)), counts - 1)
    flat = words.flatten()
    firsts = np.cumsum(counts) - counts
    items = flat.take(pa.array(np.delete(np.arange(len(flat)), firsts)))
    users = flat.take(pa.array(firsts[lines]))
    return _with_empty(_events(found, users, items, lines), int(np.count_nonzero(counts == 1)))


def _events(found: ParsedTable, users: pa.Array, items: pa.Array, lines: NDArray[np.int64]) -> RawEvents:
    if not len(users):
        raise DataError(f"{found.name}: expected lines of a user and its items, got only users")
    events = expanded(found, pa.table({"user": users, "item": items}), lines)
    return to_events(events, user="user", item="item")


def _with_empty(raw: RawEvents, empty: int) -> RawEvents:
    dropped = {**raw.dropped, **({"user without items": empty} if empty else {})}
    return replace(raw, read=raw.read + empty, dropped=dropped)
