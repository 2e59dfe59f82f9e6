"""JSON lines: one object per line; only the requested keys are read."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from shortlist.data.raw_events import Place, Reject
from shortlist.data.tables.encodings import not_utf8
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import is_number, is_time
from shortlist.data.tables.lines import Lines, Record, parse_error, places_of
from shortlist.data.tables.parsed import ParsedTable, skips
from shortlist.errors import DataError

BLOCK = 32 << 20  # no object may be longer than this
ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")

Kinds = Mapping[str, str]


def read_jsonlines(file: File, kinds: Kinds, bad_lines: str = "refuse") -> ParsedTable:
    """The keys of `kinds` (key -> id, number, time, text) as columns, read by Arrow or, after an error, by Python."""
    skip = skips(bad_lines)
    first = first_object(file, kinds)
    try:
        with file.opened() as stream:
            return _found(file, kinds, _fast(stream, kinds, first), skip=skip)
    except pa.ArrowInvalid:
        return _slow(file, kinds, skip)


def first_object(file: File, kinds: Kinds) -> Mapping[str, Any]:
    """The first valid object of a file; it shows the types of its keys."""
    bad = None
    for record in records(file, kinds):
        if not record.problem:
            found: Mapping[str, Any] = json.loads(record.raw)
            return found
        bad = bad or record
    if bad is None:
        raise DataError(f"{file.name}: is empty; expected one JSON object per line")
    raise parse_error(file.name, [bad], "")


def records(file: File, kinds: Kinds) -> Iterator[Record]:
    """Every line that is not blank with its problem, by a slow reader."""
    with file.opened() as stream:
        for line, raw in Lines(stream):
            if raw.strip():
                problem, hint = not_utf8(raw)
                yield Record(line, raw, (), problem or _problem(raw, kinds), hint or _hint(raw))


def _problem(raw: bytes, kinds: Kinds) -> str:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return f"expected a JSON object, got {raw[:40]!r}"
    if not isinstance(found, dict):
        return f"expected a JSON object, got {type(found).__name__}"
    return next((problem for key, kind in kinds.items() if (problem := _wrong(found, key, kind))), "")


def _hint(raw: bytes) -> str:
    array = raw.strip() == b"[" or raw.lstrip().startswith(b"[{")
    return "if the file is one JSON array, write one object per line: jq -c '.[]' FILE" if array else ""


def _wrong(found: Mapping[str, Any], key: str, kind: str) -> str:
    if key not in found:
        return f"expected a key {key!r}, found {', '.join(map(repr, list(found)[:12]))}"
    what, accepts = ACCEPTS[kind]
    return "" if accepts(found[key]) else f"expected {what} as {key!r}, got {str(found[key])[:40]!r}"


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _is_time(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, str) and not is_number(value) and is_time(value))


def _is_attribute(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(one is None or isinstance(one, str | int | float) for one in values)


ACCEPTS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "id": ("an id (text or a whole number)", _is_id),
    "text": ("text", lambda value: value is None or isinstance(value, str)),
    "any": ("text, a number or nothing", lambda value: value is None or isinstance(value, str | int | float)),
    "attribute": ("text, a number, a list of these or nothing", _is_attribute),
    "number": ("a number", _is_number),
    "time": ("a time (a number or an ISO date)", _is_time),
}


def _found(
    file: File, kinds: Kinds, table: pa.Table, rejects: tuple[Reject, ...] = (), skip: bool = False
) -> ParsedTable:
    def places(rows: Sequence[int]) -> list[Place]:
        return places_of(file.name, _alike(records(file, kinds), kinds), rows)

    return ParsedTable(table, file.name, places, rejects, skip)


def _slow(file: File, kinds: Kinds, skip: bool) -> ParsedTable:
    """The table by a slow reader, which also reads ids that are numbers on some lines and text on others."""
    rows: list[tuple[Any, ...]] = []
    bad: list[Record] = []
    for record in _alike(records(file, kinds), kinds):
        if record.problem and not skip:
            raise parse_error(file.name, [record], "")
        if record.problem:
            bad.append(record)
        else:
            found = json.loads(record.raw)
            rows.append(tuple(found[key] for key in kinds))
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    table = {key: _column(list(column), kinds[key]) for key, column in zip(kinds, columns, strict=True)}
    return _found(file, kinds, pa.table(table), tuple(record.reject(file.name) for record in bad), skip)


def _alike(found: Iterable[Record], kinds: Kinds) -> Iterator[Record]:
    """The records; one whose time is text where the first is a number, or the reverse, has a problem."""
    times = [key for key, kind in kinds.items() if kind == "time"]
    usual: dict[str, Any] = {}
    for record in found:
        values = {key: json.loads(record.raw)[key] for key in times} if not record.problem else {}
        usual = usual or values
        odd = next((key for key in values if _form(values[key]) != _form(usual[key])), None)
        problem = "" if odd is None else f"expected a time written like {usual[odd]!r}, got {values[odd]!r}"
        yield replace(record, problem=record.problem or problem)


def _form(value: Any) -> str:
    return str(bool(ZONE.search(value))) if isinstance(value, str) else "number"


def _column(values: list[Any], kind: str) -> pa.Array:
    if kind == "id":  # 10 and "10" are one id, because a CSV file and a command line cannot tell them apart
        return pa.array([value if value is None else str(value) for value in values], pa.string())
    if kind == "number":
        return pa.array([float(value) for value in values], pa.float64())
    if any(isinstance(value, list) for value in values):
        lists = [[] if value is None else value if isinstance(value, list) else [value] for value in values]
        numbers = all(_is_number(one) for row in lists for one in row)  # of a vector, or of numbered tags
        return pa.array(lists if numbers else [_texts(value) for value in values])
    if kind == "time" and values and isinstance(values[0], str):
        return _dates(pa.chunked_array([pa.array(values, pa.string())]), values[0])
    same = len({isinstance(value, str) for value in values if value is not None}) < 2
    return pa.array(values if same else [value if value is None else str(value) for value in values])


def _texts(value: Any) -> list[str] | None:
    """The texts of a list or of one value."""
    values = value if isinstance(value, list) else [value]
    return None if value is None else [str(one) for one in values if one is not None]


def _fast(stream: BinaryIO, kinds: Kinds, first: Mapping[str, Any]) -> pa.Table:
    schema = pa.schema([(key, _type(first[key], kind)) for key, kind in kinds.items()])
    table = arrow_json.read_json(
        stream,
        arrow_json.ReadOptions(block_size=BLOCK),
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    table.validate(full=True)  # Arrow does not check the bytes of text
    for key, kind in kinds.items():
        if kind in ("number", "time") and table[key].null_count:
            raise pa.ArrowInvalid(f"key {key!r} has missing values")
        if (
            pa.types.is_floating(table[key].type)
            and not pc.all(pc.is_finite(table[key]), min_count=0).as_py()
        ):
            raise pa.ArrowInvalid(f"key {key!r} holds non-finite numbers")
        if kind == "time" and isinstance(first[key], str):
            table = table.set_column(table.column_names.index(key), key, _dates(table[key], first[key]))
    return table


def _type(value: Any, kind: str) -> pa.DataType:
    if isinstance(value, list):
        return pa.list_(pa.string())
    if kind in ("any", "attribute") and isinstance(value, bool):
        return pa.bool_()
    if kind == "number" or (kind in ("any", "attribute") and isinstance(value, int)):
        return pa.float64()
    if kind == "text" or isinstance(value, str) or value is None:
        return pa.string()
    return pa.float64() if isinstance(value, float) else pa.int64()


def _dates(column: pa.ChunkedArray, first: str) -> pa.ChunkedArray:
    return pc.cast(column, pa.timestamp("ms", "UTC" if ZONE.search(first) else None))
