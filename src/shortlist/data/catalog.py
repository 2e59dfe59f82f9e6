"""Item metadata: titles, categories and any further column."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import DataError

LIST_SEPARATOR = "|"  # between the values of a list that is written as one text
NEVER_SPLIT = ("title",)  # free text


@dataclass(frozen=True, eq=False)
class Catalog:
    """Item ids by row, and a table whose row i describes item i.

    Stages use the columns `title` (text) and `category` (text, or a list where an item has several). Rankers read
    further columns as features.
    """

    vocabulary: Vocabulary
    table: pa.Table

    def __post_init__(self) -> None:
        if self.table.num_columns and self.table.num_rows != len(self.vocabulary):
            raise DataError(
                f"catalog: expected one row per item, got {self.table.num_rows} rows "
                f"for {len(self.vocabulary)} items"
            )

    @classmethod
    def bare(cls, vocabulary: Vocabulary) -> "Catalog":
        """A catalog of ids without metadata."""
        return cls(vocabulary, pa.table({}))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def title(self, row: int) -> str:
        """The title of an item, or its id if it has no title."""
        title = self.table["title"][int(row)].as_py() if "title" in self.table.column_names else None
        return str(title) if title else str(self.vocabulary.id(row))

    def categories_of(self, row: int) -> tuple[str, ...]:
        """The categories of an item in the order of the log's item table, empty if unknown."""
        known = "category" in self.table.column_names
        return _names(self.table["category"][int(row)].as_py()) if known else ()

    def category(self, row: int) -> str:
        """The categories of an item in one text, empty if unknown."""
        return ", ".join(self.categories_of(row))

    @cached_property
    def categories(self) -> Vocabulary:
        """All category names, sorted; an item without category has the category ''."""
        return Vocabulary.of(sorted({name for names in self._lists for name in names}))

    @cached_property
    def category_rows(self) -> NDArray[np.int64]:
        """For every item, the row of its first category in `categories` [N], where an item needs exactly one."""
        return np.ascontiguousarray(self.category_lists[:, 0])

    @cached_property
    def category_lists(self) -> NDArray[np.int64]:
        """For every item, the rows of all its categories in `categories` [N, C], -1 = none."""
        lengths = np.fromiter(map(len, self._lists), np.int64, len(self))
        table = np.full((len(self), max(int(lengths.max(initial=1)), 1)), -1, np.int64)
        flat = pa.array([name for names in self._lists for name in names], type=pa.string())
        table[np.arange(table.shape[1]) < lengths[:, None]] = self.categories.encode(flat)
        return table

    @property
    def described(self) -> int:
        """The number of items with any metadata."""
        columns = [self.table[name] for name in self.table.column_names]
        known = [np.asarray(pc.is_valid(column)) for column in columns]
        return int(np.count_nonzero(np.logical_or.reduce(known))) if known else 0

    @cached_property
    def _lists(self) -> list[tuple[str, ...]]:
        if "category" not in self.table.column_names:
            return [("",)] * len(self)
        return [_names(value) or ("",) for value in self.table["category"].to_pylist()]


def split_texts(table: pa.Table, separator: str = LIST_SEPARATOR) -> pa.Table:
    """The same table; texts become lists where the separator occurs in a column, except titles; '' splits nothing."""
    for at, name in enumerate(table.column_names):
        if separator and name not in NEVER_SPLIT and _occurs(table[name], separator):
            table = table.set_column(at, name, as_lists(table[name], separator))
    return table


def as_lists(column: pa.ChunkedArray, separator: str = "") -> pa.ChunkedArray:
    """A text column as lists without empty values; without a separator each text is one value."""
    texts = pc.cast(column, pa.string()).to_pylist()
    split = (text and (text.split(separator) if separator else [text]) for text in texts)
    lists = [None if one is None else [part.strip() for part in one if part.strip()] for one in split]
    return pa.chunked_array([pa.array(lists, pa.list_(pa.string()))])


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type has lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has texts, dictionary-encoded or not."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _occurs(column: pa.ChunkedArray, separator: str) -> bool:
    if not is_text(column.type):
        return False
    return bool(pc.any(pc.match_substring(pc.cast(column, pa.string()), separator), min_count=0).as_py())


def _names(value: object) -> tuple[str, ...]:
    """The distinct names in a value of the column `category`, in their order."""
    values = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(str(one) for one in values if one is not None and one != ""))
