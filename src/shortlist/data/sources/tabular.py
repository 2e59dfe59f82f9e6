"""Any table of events: CSV, TSV, JSON lines, Parquet or a data frame, with a mapping of its columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

import pyarrow as pa

from shortlist.data.raw_events import Ids, RawEvents
from shortlist.data.tables.frames import Frame, frame_table, is_frame
from shortlist.data.tables.log_files import Source, log_files
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.table_file import Table, tables_of
from shortlist.data.tables.to_events import attribute_table, to_events
from shortlist.errors import ConfigError

EVENT_KINDS = {"user": "id", "item": "id", "time": "time", "weight": "number"}
ATTRIBUTE_KINDS = {"id": "id", "title": "text"}
OF_ITEM, OF_USER = "item.", "user."  # prefixes of the columns of the item and the user table


class Rows(Protocol):
    """A table that knows its columns."""

    def present(self) -> tuple[str, ...]: ...

    def read(self, kinds: Mapping[str, str]) -> ParsedTable: ...


Opener = Callable[[Source | Frame | Sequence[Source], Mapping[str, str]], Rows]


def read_tabular(
    path: Source | Frame | Sequence[Source],
    *,
    columns: Mapping[str, str] | None = None,
    items: Source | Frame = "",
    file_format: str = "",
    delimiter: str = "",
    names: str = "",
    unit: str = "auto",
    time_format: str = "",
    bad_lines: str = "refuse",
    users: Source | Frame = "",
    encoding: str = "",
    decimal: str = "",
) -> RawEvents:
    """Read events; `columns` maps `user`, `item`, `time`, `weight` and further columns to names in the file.

    `items` is a second table with item metadata: `item.id`, `item.title`, `item.category` map its columns; `users` is
    one of users, mapped with `user.id` and so on. `names` lists the columns of a text file without header, separated by
    commas. `file_format` (csv, tsv, jsonl, parquet) defaults to that of the suffix, `delimiter` and `decimal` (point or
    comma) to what the first lines show, `encoding` to UTF-8 or a byte-order mark. Times are numbers (`unit`: auto, s,
    ms, us, ns), ISO dates, or text in `time_format`.
    """
    mapped = {"user": "user", "item": "item", **(columns or {})}
    mapping = {ours: theirs for ours, theirs in mapped.items() if not ours.startswith((OF_ITEM, OF_USER))}
    _check_prefixes(mapped, {OF_ITEM: items, OF_USER: users})
    options = {"delimiter": delimiter, "decimal": decimal, "names": names, "time_format": time_format}
    opened = partial(_opened, encoding=encoding, bad_lines=bad_lines)
    raw = _events(opened(path, _options(mapping), file_format=file_format, **options), mapping, unit)
    return replace(
        raw,
        item_table=_attributes(opened, items, "item", mapped, raw.items),
        user_table=_attributes(opened, users, "user", mapped, raw.users),
    )


def _check_prefixes(mapped: Mapping[str, str], tables: Mapping[str, Source | Frame]) -> None:
    """Refuse columns of a table of items or users that is not given."""
    for prefix, table in tables.items():
        named = [f"{ours}={theirs}" for ours, theirs in mapped.items() if ours.startswith(prefix)]
        if named and _is_missing(table):
            what = prefix.removesuffix(".")
            raise ConfigError(
                f"--column {named[0]}: {prefix}* needs a table of {what}s; name it with --{what}s FILE, or leave out "
                f"the column"
            )


def _is_missing(table: Source | Frame) -> bool:
    return isinstance(table, str) and not table


def _opened(
    source: Source | Frame | Sequence[Source],
    needed: Mapping[str, str],
    encoding: str,
    bad_lines: str,
    **options: str,
) -> Rows:
    if is_frame(source):
        return frame_table(source, needed, bad_lines, options.get("time_format", ""))
    files = log_files(cast(Source | Sequence[Source], source))
    first = Table(files[0], needed, bad_lines=bad_lines, **options)
    return tables_of(files, encoding, first)


def _options(mapping: Mapping[str, str]) -> dict[str, str]:
    """The option that names each column, for error messages."""
    return {
        theirs: f"--{ours}" if ours in EVENT_KINDS else f"--column {ours}="
        for ours, theirs in mapping.items()
    }


def _events(table: Rows, mapping: Mapping[str, str], unit: str) -> RawEvents:
    present = table.present()
    usual: tuple[str, ...] = ("time", "weight")
    extra = {name: name for name in usual if name in present and name not in mapping}
    mapping = {**mapping, **extra}
    return to_events(
        table.read({theirs: EVENT_KINDS.get(ours, "any") for ours, theirs in mapping.items()}),
        user=mapping["user"],
        item=mapping["item"],
        time=mapping.get("time"),
        weight=mapping.get("weight"),
        unit=unit,
        carry={ours: theirs for ours, theirs in mapping.items() if ours not in EVENT_KINDS},
    )


def _attributes(
    opened: Opener, source: Source | Frame, key: str, mapped: Mapping[str, str], ids: Ids
) -> pa.Table | None:
    """The table of items or users: the mapped columns, title and category; of users all columns if none is mapped."""
    if _is_missing(source):
        return None
    prefix = f"{key}."
    named = {ours.removeprefix(prefix): theirs for ours, theirs in mapped.items() if ours.startswith(prefix)}
    key_column = named.pop("id", mapped[key])
    needed = {theirs: f"--column {prefix}{ours}=" for ours, theirs in {**named, "id": key_column}.items()}
    table = opened(source, needed)
    present = table.present()
    usual = present if key == "user" and not named else ("title", "category")
    extra = {name: name for name in usual if name in present and name not in {*named, key_column}}
    mapping: dict[str, str] = {"id": key_column, **extra, **named}
    found = table.read({theirs: ATTRIBUTE_KINDS.get(ours, "attribute") for ours, theirs in mapping.items()})
    others = ", ".join(name for name in present if name != key_column)
    advice = f"name the column of ids with --column {prefix}id=NAME (other columns: {others or 'none'})"
    return attribute_table(found, key, mapping.pop("id"), mapping, ids, advice)
