"""Times that are text in a column of text (Parquet, data frames, JSON lines), parsed as in a CSV file."""

import io
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from shortlist.data.tables.bad_rows import is_text, without_rows
from shortlist.data.tables.delimited import parse_text
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.lines import Record, usual_form, written_alike
from shortlist.data.tables.parsed import ParsedTable
from shortlist.errors import DataError

SKIP = "fix the row, or skip such rows with --bad-lines skip"


def with_parsed_times(found: ParsedTable, kinds: Mapping[str, str], time_format: str = "") -> ParsedTable:
    """The table with its times of text as numbers or timestamps; other times are as they are."""
    for name, kind in kinds.items():
        if kind == "time" and _is_text(found.table[name].type):
            layout = Layout((name,), {name: "time"}, quoted=True, time_format=time_format)
            found = _parsed(found, name, layout)
    return found


def _parsed(found: ParsedTable, name: str, layout: Layout) -> ParsedTable:
    """Arrow parses all rows; after an error, a slow reader finds the bad ones, and the others are parsed again."""
    texts = _texts(found.table[name])
    try:
        times = _fast(texts, layout)
    except pa.ArrowInvalid as error:
        bad = _bad_rows(texts, layout)
        if not bad or not found.skip:
            raise _refusal(found, bad, error) from error
        return _parsed(without_rows(found, {one.line: one.problem for one in bad}), name, layout)
    at = found.table.column_names.index(name)
    return replace(found, table=found.table.set_column(at, name, times))


def _fast(texts: pa.ChunkedArray, layout: Layout) -> pa.ChunkedArray:
    if not len(texts):
        return pa.chunked_array([], pa.int64())
    if pc.any(pc.equal(texts, "")).as_py():
        raise pa.ArrowInvalid("a time is empty")
    lines = io.BytesIO()
    form = arrow_csv.WriteOptions(include_header=False, quoting_style="needed")
    arrow_csv.write_csv(pa.table({layout.names[0]: texts}), lines, form)
    lines.seek(0)
    return parse_text(lines, layout)[layout.names[0]]


def _bad_rows(texts: pa.ChunkedArray, layout: Layout) -> list[Record]:
    """The rows that are no time, else those that are not written like most; `line` is the row from 0."""
    rows = [_record(at, text, layout) for at, text in enumerate(texts.to_pylist())]
    usual = usual_form(rows, 0)
    if usual is not None and not any(row.problem for row in rows):
        rows = list(written_alike(rows, 0, usual))
    return [row for row in rows if row.problem]


def _record(row: int, text: str, layout: Layout) -> Record:
    problem = layout.problem((text,))
    return Record(row, text.encode(), (text,), problem, layout.hint((text,)) if problem else "")


def _refusal(found: ParsedTable, bad: list[Record], error: Exception) -> DataError:
    if bad:
        return DataError(f"{found.locate(bad[0].line)}: {bad[0].problem}; {bad[0].hint or SKIP}")
    brief = str(error).partition("\n")[0]
    return DataError(
        f"{found.name}: its times cannot be read ({brief}); name their form with --option time_format"
    )


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as plain text; nothing becomes an empty text, which is no time."""
    plain = pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.cast(plain, pa.string()), "")


def _is_text(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
