"""A parsed file: its table, and the line number of every row."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class ParsedTable:
    """The requested columns; `locate` gives the file and line of a row, for error messages."""

    table: pa.Table
    name: str
    locate: Callable[[int], str]
    bad: int = 0  # unparsable lines that were skipped

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows
