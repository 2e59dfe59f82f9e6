"""Item metadata: titles, categories and any further column."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import DataError


@dataclass(frozen=True, eq=False)
class Catalog:
    """Item ids by row, and a table whose row i describes item i.

    Stages use the text columns `title` and `category`. All other columns are stored and not used.
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

    def category(self, row: int) -> str:
        """The category of an item, empty if unknown."""
        category = self.table["category"][int(row)].as_py() if "category" in self.table.column_names else None
        return str(category) if category else ""

    @cached_property
    def categories(self) -> Vocabulary:
        """All category names, sorted; an item without category has the category ''."""
        return Vocabulary.of(sorted(set(self._names())))

    @cached_property
    def category_rows(self) -> NDArray[np.int64]:
        """For every item, the row of its category in `categories`."""
        return self.categories.encode(pa.array(self._names(), type=pa.string())).astype(np.int64)

    def _names(self) -> list[str]:
        if "category" not in self.table.column_names:
            return [""] * len(self)
        return [name or "" for name in self.table["category"].to_pylist()]
