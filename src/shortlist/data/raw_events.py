"""The output of a reader: events with the ids of the file, before ids are encoded as rows."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.blocks import mask_of, take
from shortlist.data.vocabulary import Vocabulary

Ids: TypeAlias = "pa.Array | pa.ChunkedArray"

REJECTS = "rejects.csv"  # in the folder of a data set


@dataclass(frozen=True)
class Place:
    """Where a row came from."""

    file: str
    line: str  # "3" in a text file, "row 3" in a table
    text: str


@dataclass(frozen=True)
class Reject:
    """A line that was skipped, and why."""

    file: str
    line: str
    reason: str
    text: str


def rejects_csv(rejects: Sequence[Reject]) -> str:
    """The skipped lines as CSV: file, line, reason, text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "line", "reason", "text"))
    writer.writerows((one.file, one.line, one.reason, one.text) for one in rejects)
    return text.getvalue()


@dataclass(frozen=True, eq=False)
class RawEvents:
    """Events with their original ids (int64 or text, or dictionaries of these); times in milliseconds or None.

    `item_table` describes items (column `item`, then `title`, ...), `user_table` users (column `user`, ...). `read`
    counts all rows of the file, `dropped` those that the reader left out, by reason.
    """

    users: Ids
    items: Ids
    times: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    item_table: pa.Table | None = None
    user_table: pa.Table | None = None
    read: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()  # with `--bad-lines skip`

    def __len__(self) -> int:
        return len(self.users)


def encode_ids(column: Ids) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The sorted vocabulary of a column of ids, and the row of every entry."""
    coded = dictionary_ids(column)
    order = pc.sort_indices(coded.dictionary)
    rows = np.empty(len(order), np.int32)
    rows[np.asarray(order)] = np.arange(len(order), dtype=np.int32)
    return Vocabulary(coded.dictionary.take(order)), take(rows, np.asarray(coded.indices))


def dictionary_ids(column: Ids) -> pa.DictionaryArray:
    """The same ids, dictionary-encoded in one chunk; every dictionary entry is distinct and used."""
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    if isinstance(coded, pa.ChunkedArray):
        coded = one_chunk(coded.unify_dictionaries()) if coded.num_chunks else _empty(column.type)
    entries = pc.dictionary_encode(coded.dictionary)  # a file may repeat an entry of its dictionary
    distinct = len(entries.dictionary) == len(coded.dictionary)
    rows = np.asarray(coded.indices)
    rows = rows if distinct else take(np.asarray(entries.indices), rows)
    used = mask_of(rows, len(entries.dictionary))
    if distinct and used.all():
        return coded
    packed = (np.cumsum(used) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(take(packed, rows)), entries.dictionary.filter(pa.array(used))
    )


def one_chunk(column: Ids) -> pa.Array:
    """A column as one array; `combine_chunks` would copy even a single chunk."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _empty(kind: pa.DataType) -> pa.DictionaryArray:
    return pa.array([], type=kind if pa.types.is_dictionary(kind) else pa.dictionary(pa.int32(), kind))
