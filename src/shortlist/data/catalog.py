"""What is known of the items: titles, categories and any further column."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import DataError


@dataclass(frozen=True, eq=False)
class Catalog:
    """The items by row: their outside ids, and a table whose row i describes item i.

    The columns `title` (text) and `category` (text) are known to the stages; every other one is carried along.
    """

    vocabulary: Vocabulary
    table: pa.Table

    def __post_init__(self) -> None:
        if self.table.num_columns and self.table.num_rows != len(self.vocabulary):
            raise DataError(f"catalog: {len(self.vocabulary)} items but {self.table.num_rows} described")

    @classmethod
    def bare(cls, vocabulary: Vocabulary) -> "Catalog":
        """Items of which only the id is known."""
        return cls(vocabulary, pa.table({}))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def title(self, row: int) -> str:
        """The title of an item, or its id where it has none."""
        known = self.table["title"][int(row)].as_py() if "title" in self.table.column_names else None
        return str(known) if known else str(self.vocabulary.id(row))

    def category(self, row: int) -> str:
        """The category of an item, empty where unknown."""
        known = self.table["category"][int(row)].as_py() if "category" in self.table.column_names else None
        return str(known) if known else ""

    @cached_property
    def categories(self) -> Vocabulary:
        """The names of all categories, sorted; items without one belong to ''."""
        return Vocabulary.of(sorted(set(self._names())))

    @cached_property
    def category_rows(self) -> NDArray[np.int64]:
        """The row in `categories` of every item."""
        return self.categories.encode(pa.array(self._names(), type=pa.string())).astype(np.int64)

    def _names(self) -> list[str]:
        if "category" not in self.table.column_names:
            return [""] * len(self)
        return [name or "" for name in self.table["category"].to_pylist()]
