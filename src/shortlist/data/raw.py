"""What a reader hands over: columns in the words of the file, before rows stand for ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.vocabulary import Vocabulary

Ids = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, eq=False)
class Raw:
    """Events with outside ids (int64, text, or either dictionary-encoded); times in milliseconds or None.

    `described` tells of items (column `item`, then `title`, `category`, ...), `people` of users (column `user`, ...).
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
    """The sorted vocabulary of a column of ids and the row of every entry; row order does not change the result."""
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    whole = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all
        whole = pa.array([], type=pa.dictionary(pa.int32(), pa.string()))
    words = whole.dictionary
    order = pc.sort_indices(words)
    rows = np.empty(len(words), np.int32)
    rows[np.asarray(order)] = np.arange(len(words), dtype=np.int32)
    used = np.asarray(whole.indices)
    return Vocabulary(words.take(order)), rows[used] if len(words) else used.astype(np.int32)
