"""What a reader hands over: columns in the words of the file, before rows stand for ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.blocks import marked, taken
from shortlist.data.vocabulary import Vocabulary

Ids: TypeAlias = "pa.Array | pa.ChunkedArray"


@dataclass(frozen=True, eq=False)
class Raw:
    """Events with outside ids (int64 or text, or dictionaries of these); times in milliseconds or None.

    `described` tells of items (column `item`, then `title`, ...), `people` of users (column `user`, ...).
    `dropped` counts the rows a reader left out, by reason; `read` counts all rows it met.
    """

    users: Ids
    items: Ids
    times: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    described: pa.Table | None = None
    people: pa.Table | None = None
    read: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.users)


def encode(column: Ids) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The sorted vocabulary of a column of ids and the row of every entry, whatever their order."""
    coded = compact(column)
    order = pc.sort_indices(coded.dictionary)
    rows = np.empty(len(order), np.int32)
    rows[np.asarray(order)] = np.arange(len(order), dtype=np.int32)
    return Vocabulary(coded.dictionary.take(order)), taken(rows, np.asarray(coded.indices))


def compact(column: Ids) -> pa.DictionaryArray:
    """The same ids, dictionary-encoded in one piece; every word of the dictionary is distinct and in use."""
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    if isinstance(coded, pa.ChunkedArray):
        coded = whole(coded.unify_dictionaries()) if coded.num_chunks else _empty(column.type)
    words = pc.dictionary_encode(coded.dictionary)  # a file may repeat a word in its dictionary
    distinct = len(words.dictionary) == len(coded.dictionary)
    rows = np.asarray(coded.indices)
    rows = rows if distinct else taken(np.asarray(words.indices), rows)
    used = marked(rows, len(words.dictionary))
    if distinct and used.all():
        return coded
    packed = (np.cumsum(used) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(taken(packed, rows)), words.dictionary.filter(pa.array(used))
    )


def whole(column: Ids) -> pa.Array:
    """A column in one piece; Arrow copies even where it is one already."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _empty(kind: pa.DataType) -> pa.DictionaryArray:
    return pa.array([], type=kind if pa.types.is_dictionary(kind) else pa.dictionary(pa.int32(), kind))
