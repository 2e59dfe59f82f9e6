"""What a file reader found: a table, and the way back from a row to its line."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Found:
    """A table of the columns asked for; `where` says which line of which file a row stands on."""

    table: pa.Table
    name: str
    where: Callable[[int], str]
    bad: int = 0  # unparsable lines left out

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows
