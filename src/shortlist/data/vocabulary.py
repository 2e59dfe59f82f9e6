"""Vocabularies: ids outside the library, rows inside."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """id <-> row 0..n-1; an unknown id has row -1."""

    ids: pa.Array  # int64 or string, distinct

    @classmethod
    def of(cls, ids: Sequence[int] | Sequence[str]) -> "Vocabulary":
        """A vocabulary of these ids, in this order."""
        return cls(pa.array(ids, type=pa.int64() if all(isinstance(i, int) for i in ids) else pa.string()))

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and bool(self.ids.equals(other.ids))

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def row(self, value: object) -> int:
        """The row of one id; "5" also finds the integer 5, because a command line passes text; "05" does not."""
        if value in self._rows:
            return self._rows[value]
        return self._rows.get(_retyped(value, pa.types.is_integer(self.ids.type)), UNKNOWN)

    def rows(self, ids: Sequence[object]) -> NDArray[np.int64]:
        """The rows of several ids, -1 if unknown."""
        return np.fromiter((self.row(value) for value in ids), np.int64, len(ids))

    def encode(self, column: pa.Array | pa.ChunkedArray) -> NDArray[np.int32]:
        """The rows of a column of ids, -1 if unknown."""
        rows = pc.index_in(column, value_set=self.ids)
        return np.asarray(pc.fill_null(rows, UNKNOWN)).astype(np.int32, copy=False)

    def rows_of(self, part: "Vocabulary") -> NDArray[np.int32]:
        """The row of every id of another vocabulary, -1 if unknown; its ids are converted to this one's type."""
        return self.encode(part.ids.cast(self.ids.type))

    def extended(self, new: "Vocabulary") -> "Vocabulary":
        """All ids in their rows, then those that are new; integers become text if either has text."""
        kind = self.ids.type if self.ids.type == new.ids.type else pa.string()
        before, after = Vocabulary(self.ids.cast(kind)), new.ids.cast(kind)
        unknown = before.encode(after) == UNKNOWN
        return Vocabulary(pa.concat_arrays([before.ids, after.filter(pa.array(unknown))]))

    def id(self, row: int) -> int | str:
        """The id of one row."""
        value: int | str = self.ids[int(row)].as_py()
        return value

    def ids_of(self, rows: Sequence[int] | NDArray[Any]) -> list[int | str]:
        """The ids of several rows."""
        ids: list[int | str] = self.ids.take(pa.array(rows, type=pa.int64())).to_pylist()
        return ids

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the ids and their order."""
        digest = hashlib.sha256(str(self.ids.type).encode())
        for start in range(0, len(self.ids), 1 << 16):
            digest.update("\x00".join(map(str, self.ids[start : start + (1 << 16)].to_pylist())).encode())
        return digest.hexdigest()[:16]

    @cached_property
    def _rows(self) -> dict[object, int]:
        return {value: row for row, value in enumerate(self.ids.to_pylist())}


def _retyped(value: object, integer: bool) -> object:
    text = str(value)
    if not integer:
        return text
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) else None
