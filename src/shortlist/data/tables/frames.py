"""Data frames: anything with an Arrow stream (pandas, polars, DuckDB, pyarrow)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.tables.parsed import ParsedTable, skips
from shortlist.data.tables.typed_columns import check_names, compacted, narrowed, parsed_columns
from shortlist.errors import DataError


@runtime_checkable
class Frame(Protocol):
    """An object with the Arrow PyCapsule interface for streams."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@dataclass(frozen=True)
class FrameTable:
    """A data frame as a table of events or of attributes."""

    table: pa.Table
    name: str
    options: Mapping[str, str]  # column -> the option that names it
    bad_lines: str = "refuse"
    time_format: str = ""

    def present(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self.table.column_names)

    def read(self, kinds: Mapping[str, str]) -> ParsedTable:
        """The columns of `kinds`; numbers and times without nulls are not copied."""
        check_names(self.name, self.present(), kinds, self.options)
        columns = {
            name: compacted(narrowed(_standard(self.table[name]), kind), kind) for name, kind in kinds.items()
        }
        return parsed_columns(pa.table(columns), self.name, kinds, skips(self.bad_lines), self.time_format)


def is_frame(source: object) -> TypeGuard[Frame]:
    """Whether an object is a data frame."""
    return isinstance(source, Frame) or hasattr(source, "__dataframe__")


def frame_name(frame: object) -> str:
    """The name of a data frame in messages: its type."""
    return f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"


def frame_table(
    frame: Any, options: Mapping[str, str], bad_lines: str = "refuse", time_format: str = ""
) -> FrameTable:
    """A data frame as an Arrow table, without a copy where the frame shares its memory."""
    name = frame_name(frame)
    try:
        table = (
            pa.table(frame) if isinstance(frame, Frame) else pa.Table.from_pandas(frame, preserve_index=False)
        )
    except (pa.ArrowException, TypeError, ValueError) as error:
        brief = str(error).partition("\n")[0]
        raise DataError(
            f"{name}: cannot be converted to Arrow ({brief}); give every column one type, "
            "for example frame.astype({'user': str})"
        ) from error
    return FrameTable(table, name, options, bad_lines, time_format)


def _standard(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text views, as polars has them, become plain text, also inside lists and categories."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.chunked_array([_plain_dictionary(chunk) for chunk in column.chunks])
    plain = _plain(kind)
    return column if plain == kind else pc.cast(column, plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return pa.string() if pa.types.is_string_view(kind) else kind


def _plain_dictionary(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = pc.cast(chunk.indices, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pc.cast(chunk.dictionary, pa.string()))
