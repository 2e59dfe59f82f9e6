"""A parsed file: its table, the origin of every row, and the rows that were skipped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import Place, Reject
from shortlist.errors import ConfigError, DataError

CLUES = {  # parts of the names that such columns often have
    "--user": ("user", "uid", "customer", "visitor", "reviewer"),
    "--item": ("item", "product", "movie", "video", "track", "article", "asin", "sku"),
    "--time": ("time", "date", "when"),
    "--weight": ("weight", "rating", "stars", "score"),
}
Places = Callable[[Sequence[int]], list[Place]]


@dataclass(frozen=True)
class ParsedTable:
    """The requested columns; `places` gives the origin of rows, in a second pass over the file."""

    table: pa.Table
    name: str
    places: Places
    rejects: tuple[Reject, ...] = ()  # lines that were skipped
    skip: bool = False  # whether bad rows are skipped or refused

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def locate(self, row: int) -> str:
        """The file and line of a row, for error messages."""
        place = self.places([row])[0]
        return f"{place.file}:{place.line}"

    @property
    def bad(self) -> int:
        """The number of skipped lines."""
        return len(self.rejects)


def skips(bad_lines: str) -> bool:
    """Whether bad lines are skipped."""
    if bad_lines not in ("refuse", "skip"):
        raise ConfigError(f"--bad-lines: expected refuse or skip, got {bad_lines!r}")
    return bad_lines == "skip"


def missing_column(where: str, name: str, names: Sequence[str], option: str = "") -> DataError:
    """The error for a column that is not there, with the option that names another one."""
    found = "it twice" if name in names else ", ".join(names)[:200]
    likely = [other for other in names if any(clue in other.lower() for clue in CLUES.get(option, ()))]
    choice = likely[0] if len(likely) == 1 else "COLUMN"
    space = "" if option.endswith("=") else " "
    advice = f"name the column with {option}{space}{choice}" if option else "map another column"
    advice = "rename one of them" if option and name in names else advice
    return DataError(f"{where}: expected a column {name!r}, found {found}; {advice}")


def expanded(found: ParsedTable, table: pa.Table, lines: NDArray[np.int64]) -> ParsedTable:
    """A table whose row i was made from row `lines[i]` of `found`."""
    places = lambda rows: found.places([int(lines[row]) for row in rows])  # noqa: E731
    return ParsedTable(table, found.name, places, found.rejects, found.skip)


def joined(parts: Sequence[ParsedTable]) -> ParsedTable:
    """Several files as one table, in their order."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].table.column_names
    columns = {name: _joined_column(name, parts) for name in names}
    starts = [0, *accumulate(len(part) for part in parts)]
    rejects = tuple(reject for part in parts for reject in part.rejects)
    return ParsedTable(
        pa.table(columns), parts[0].name, lambda rows: _places(parts, starts, rows), rejects, parts[0].skip
    )


def _places(parts: Sequence[ParsedTable], starts: Sequence[int], rows: Sequence[int]) -> list[Place]:
    """One pass over every file that holds some of the rows."""
    owners = np.searchsorted(starts, rows, side="right") - 1
    found: dict[int, Place] = {}
    for at in dict.fromkeys(owners.tolist()):
        mine = [row for row, owner in zip(rows, owners, strict=True) if owner == at]
        found |= zip(mine, parts[at].places([row - starts[at] for row in mine]), strict=True)
    return [found[row] for row in rows]


def _joined_column(name: str, parts: Sequence[ParsedTable]) -> pa.ChunkedArray:
    columns = [part.table[name] for part in parts]
    kinds = list(dict.fromkeys(column.type for column in columns))
    if len(kinds) > 1:
        shared = _shared_type(name, parts, kinds)
        columns = [pc.cast(_plain(column), shared, safe=False) for column in columns]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _shared_type(name: str, parts: Sequence[ParsedTable], kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Numbers stay numbers, dates dates, ids and words become text; anything else is refused."""
    for accepts, shared in SHARED:
        if all(accepts(kind) for kind in kinds):
            return shared
    other = next(part for part in parts if part.table[name].type != kinds[0])
    raise DataError(
        f"{other.name}: expected {kinds[0]} as {name!r} like in {parts[0].name}, "
        f"got {other.table[name].type}; use one form in all files"
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return pc.cast(column, kind.value_type) if pa.types.is_dictionary(kind) else column


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_word(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_dictionary(kind) or pa.types.is_integer(kind))


SHARED: Sequence[tuple[Callable[[pa.DataType], bool], pa.DataType]] = (
    (pa.types.is_integer, pa.int64()),
    (_is_number, pa.float64()),
    (pa.types.is_timestamp, pa.timestamp("ms")),
    (_is_word, pa.string()),
)
