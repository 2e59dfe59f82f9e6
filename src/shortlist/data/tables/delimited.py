"""Text files with one record per line and a delimiter: CSV, TSV, `::`, `|`."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from shortlist.data.raw_events import Reject
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import PATTERNS, Layout
from shortlist.data.tables.lines import (
    Record,
    parse_error,
    places_of,
    records,
    split_records,
    usual_form,
    written_alike,
)
from shortlist.data.tables.parsed import ParsedTable, missing_column, skips
from shortlist.errors import DataError

STAND_IN = "\x1f"  # replaces a delimiter of several characters, which Arrow does not support
BLOCK = 8 << 20

TYPES: Mapping[str, pa.DataType] = {
    "id": pa.dictionary(pa.int32(), pa.string()),
    "text": pa.string(),
    "any": pa.string(),
    "attribute": pa.string(),
    "list": pa.string(),
    "clicks": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "number?": pa.float64(),
}


def read_delimited(file: File, layout: Layout, bad_lines: str = "refuse") -> ParsedTable:
    """The columns of `layout.kinds`, read by Arrow; after an error, a slow reader finds the line."""
    skip = skips(bad_lines)
    try:
        with file.opened() as stream:
            return _found(file, layout, parse_text(stream, layout), skip=skip)
    except pa.ArrowInvalid as error:
        if not skip:
            raise _refusal(file, layout, error) from error
    return _without_bad_lines(file, layout)


def header_of(file: File, delimiter: str = ",") -> tuple[str, ...]:
    """The names in the first line of a file."""
    layout = Layout(("",), {}, delimiter, quoted=len(delimiter) == 1)
    first = next(records(file, layout), None)
    if first is None:
        raise DataError(f"{file.name}: is empty; expected a line of column names")
    if not first.fields:
        raise DataError(f"{file.name}:1: {first.problem}; {first.hint or 'expected a line of column names'}")
    return tuple(name.strip() for name in first.fields)


def check_columns(
    file: File, names: tuple[str, ...], columns: Iterable[str], options: Mapping[str, str] | None = None
) -> None:
    """Raise an error unless every column occurs once among the names; `options` maps columns to what names them."""
    for name in columns:
        if names.count(name) != 1:
            raise missing_column(f"{file.name}:1", name, names, (options or {}).get(name, ""))


def _refusal(file: File, layout: Layout, error: Exception) -> DataError:
    if next(records(file, layout), None) is None:
        return _no_rows(file, layout)
    otherwise = f"cannot be read ({error})"
    return parse_error(file.name, records(file, layout), otherwise, same_form=_time_field(layout))


def _time_field(layout: Layout) -> int | None:
    return next((layout.positions[name] for name, kind in layout.kinds.items() if kind == "time"), None)


def _without_bad_lines(file: File, layout: Layout) -> ParsedTable:
    try:
        return _from_records(file, layout, lambda: records(file, layout))
    except pa.ArrowInvalid as error:
        field = _time_field(layout)
        usual = None if field is None else usual_form(records(file, layout), field)
        if field is None or usual is None:
            raise _refusal(file, layout, error) from error
    # Every line is valid by itself, but their times have several formats.
    return _from_records(file, layout, lambda: written_alike(records(file, layout), field, usual))


def _from_records(file: File, layout: Layout, found: Callable[[], Iterator[Record]]) -> ParsedTable:
    good, bad = split_records(found())
    table = parse_text(io.BytesIO(good), replace(layout, header=False)) if good else _nothing(layout)
    return _found(file, layout, table, found, tuple(record.reject(file.name) for record in bad), skip=True)


def _found(
    file: File,
    layout: Layout,
    table: pa.Table,
    found: Callable[[], Iterator[Record]] | None = None,
    rejects: tuple[Reject, ...] = (),
    skip: bool = False,
) -> ParsedTable:
    if not table.num_rows and not rejects:
        raise _no_rows(file, layout)
    lines = found or (lambda: records(file, layout))
    return ParsedTable(table, file.name, lambda rows: places_of(file.name, lines(), rows), rejects, skip)


def _no_rows(file: File, layout: Layout) -> DataError:
    line, found = (2, "only a line of column names") if layout.header else (1, "none")
    return DataError(f"{file.name}:{line}: expected at least one row of events, got {found}; add events")


def parse_text(stream: BinaryIO | io.BytesIO, layout: Layout) -> pa.Table:
    """The columns of `layout.kinds`, read by Arrow; missing and malformed values are errors of Arrow."""
    delimiter = layout.delimiter
    if len(delimiter) > 1:
        stream = io.BytesIO(stream.read().replace(delimiter.encode(), STAND_IN.encode()))
        delimiter = STAND_IN
    table = arrow_csv.read_csv(
        stream,
        arrow_csv.ReadOptions(
            column_names=layout.names,
            skip_rows=int(layout.header),
            block_size=BLOCK,
        ),
        arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char='"' if layout.quoted else False, newlines_in_values=layout.quoted
        ),
        _conversion(layout),
    )
    _check_gaps(table, layout)
    return table


def _conversion(layout: Layout) -> arrow_csv.ConvertOptions:
    return arrow_csv.ConvertOptions(
        column_types={name: TYPES[kind] for name, kind in layout.kinds.items() if kind in TYPES},
        include_columns=list(layout.kinds),
        strings_can_be_null=False,
        decimal_point=layout.decimal,
        timestamp_parsers=[layout.time_format] if layout.time_format else None,
    )


def _check_gaps(table: pa.Table, layout: Layout) -> None:
    """Refuse missing and malformed values that Arrow accepts."""
    for name, kind in layout.kinds.items() if table.num_rows else ():  # without rows no column has a type
        if problem := _gap(table[name], kind):
            raise pa.ArrowInvalid(f"column {name!r} holds {problem}")


def _gap(column: pa.ChunkedArray, kind: str) -> str:
    if kind in ("number", "integer", "time") and column.null_count:
        return "gaps"
    if pa.types.is_floating(column.type) and not _all(pc.is_finite(column)):
        return "infinite numbers"
    if kind == "time" and not _is_clock(column.type):
        return "no times"
    if kind in PATTERNS and not _all(pc.match_substring_regex(column, PATTERNS[kind])):
        return "text of another form"
    return ""


def _all(flags: pa.ChunkedArray) -> bool:
    return bool(pc.all(flags, min_count=0).as_py())


def _is_clock(kind: pa.DataType) -> bool:
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(number or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _nothing(layout: Layout) -> pa.Table:
    types = {name: TYPES.get(kind, pa.int64()) for name, kind in layout.kinds.items()}
    return pa.table({name: pa.array([], type=kind) for name, kind in types.items()})
