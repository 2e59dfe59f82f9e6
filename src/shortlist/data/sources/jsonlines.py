"""JSON lines: one object per line; only the requested keys are read."""

import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from shortlist.data.sources.files import File
from shortlist.data.sources.layout import is_number, is_time
from shortlist.data.sources.lines import Lines, Record, line_of, parse_error, split_records
from shortlist.data.sources.parsed import ParsedTable
from shortlist.errors import ConfigError, DataError

BLOCK = 32 << 20  # no object may be longer than this
ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")

Kinds = Mapping[str, str]


def read_jsonlines(file: File, kinds: Kinds, bad_lines: str = "refuse") -> ParsedTable:
    """The keys of `kinds` (key -> id, number, time, text) as columns."""
    if bad_lines not in ("refuse", "skip"):
        raise ConfigError(f"bad_lines: expected 'refuse' or 'skip', got {bad_lines!r}")
    first = first_object(file, kinds)
    try:
        with file.opened() as stream:
            return _found(file, kinds, _fast(stream, kinds, first))
    except pa.ArrowInvalid as error:
        if bad_lines == "refuse":
            raise parse_error(file.name, records(file, kinds), f"cannot be read ({error})") from error
    return _without_bad_lines(file, kinds, first)


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
                yield Record(line, raw, (), _problem(raw, kinds))


def _problem(raw: bytes, kinds: Kinds) -> str:
    try:
        found = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return "expected utf-8 text, got bytes that are not"
    except (ValueError, RecursionError):
        return f"expected a JSON object, got {raw[:40]!r}"
    if not isinstance(found, dict):
        return f"expected a JSON object, got {type(found).__name__}"
    return next((problem for key, kind in kinds.items() if (problem := _wrong(found, key, kind))), "")


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


ACCEPTS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "id": ("an id (text or a whole number)", _is_id),
    "text": ("text", lambda value: value is None or isinstance(value, str)),
    "any": ("text, a number or nothing", lambda value: value is None or isinstance(value, str | int | float)),
    "number": ("a number", _is_number),
    "time": ("a time (a number or an ISO date)", _is_time),
}


def _without_bad_lines(file: File, kinds: Kinds, first: Mapping[str, Any]) -> ParsedTable:
    good, bad = split_records(records(file, kinds))
    try:
        return _found(file, kinds, _fast(io.BytesIO(good), kinds, first), bad)
    except pa.ArrowInvalid as error:
        raise parse_error(file.name, records(file, kinds), f"cannot be read ({error})") from error


def _found(file: File, kinds: Kinds, table: pa.Table, bad: int = 0) -> ParsedTable:
    return ParsedTable(table, file.name, lambda row: f"{file.name}:{line_of(records(file, kinds), row)}", bad)


def _fast(stream: BinaryIO | io.BytesIO, kinds: Kinds, first: Mapping[str, Any]) -> pa.Table:
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
    if kind == "any" and isinstance(value, bool):
        return pa.bool_()
    if kind == "number" or (kind == "any" and isinstance(value, int)):
        return pa.float64()
    if kind == "text" or isinstance(value, str) or value is None:
        return pa.string()
    return pa.float64() if isinstance(value, float) else pa.int64()


def _dates(column: pa.ChunkedArray, first: str) -> pa.ChunkedArray:
    return pc.cast(column, pa.timestamp("ms", "UTC" if ZONE.search(first) else None))
