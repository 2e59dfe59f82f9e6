"""Any table of events: CSV, TSV, JSON lines or Parquet, with a mapping of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from shortlist.data.raw_events import RawEvents
from shortlist.data.sources.delimited import check_columns, header_of, read_delimited
from shortlist.data.sources.files import File, one_file
from shortlist.data.sources.jsonlines import first_object, read_jsonlines
from shortlist.data.sources.layout import Layout
from shortlist.data.sources.parquet import parquet_names, read_parquet
from shortlist.data.sources.parsed import ParsedTable
from shortlist.data.sources.to_events import attribute_table, to_events
from shortlist.errors import ConfigError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
OF_ITEM = "item."  # prefix of the columns of the item table


def read_tabular(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    items: str = "",
    file_format: str = "",
    delimiter: str = "",
    names: str = "",
    unit: str = "auto",
    time_format: str = "",
    bad_lines: str = "refuse",
) -> RawEvents:
    """Read events; `columns` maps `user`, `item`, `time`, `weight` and further columns to names in the file.

    `items` is a second file with item metadata: `item.id`, `item.title`, `item.category` map its columns. `names` lists
    the columns of a text file without header, separated by commas. `file_format` (csv, tsv, jsonl, parquet) and
    `delimiter` default to those of the file suffix. Times are numbers (`unit`: auto, s, ms, us, ns), ISO dates, or text
    in `time_format`.
    """
    mapped = {"user": "user", "item": "item", **(columns or {})}
    table = Table(one_file(path), file_format, delimiter, names, time_format, bad_lines)
    mapping = table.chosen({ours: theirs for ours, theirs in mapped.items() if not ours.startswith(OF_ITEM)})
    found = table.read({theirs: EVENT_KINDS.get(ours, "any") for ours, theirs in mapping.items()})
    carry = {ours: theirs for ours, theirs in mapping.items() if ours not in EVENT_KINDS}
    raw = to_events(
        found,
        user=mapping["user"],
        item=mapping["item"],
        time=mapping.get("time"),
        weight=mapping.get("weight"),
        unit=unit,
        carry=carry,
    )
    return replace(raw, item_table=_item_table(items, mapped, raw, bad_lines)) if items else raw


EVENT_KINDS = {"user": "id", "item": "id", "time": "time", "weight": "number"}
ITEM_KINDS = {"id": "id", "title": "text", "category": "text"}


@dataclass(frozen=True)
class Table:
    """A file of rows and its format."""

    file: File
    file_format: str = ""
    delimiter: str = ""
    names: str = ""
    time_format: str = ""
    bad_lines: str = "refuse"

    def chosen(self, mapping: Mapping[str, str]) -> dict[str, str]:
        """The mapped columns, and `time` and `weight` if the file has columns of that name."""
        present = self.present()
        extra = [name for name in ("time", "weight") if name in present and name not in mapping]
        return {**mapping, **dict(zip(extra, extra, strict=True))}

    def present(self) -> tuple[str, ...]:
        """The names of all columns."""
        if self._format == "parquet":
            return parquet_names(self.file.path)
        if self._format == "jsonl":
            return tuple(first_object(self.file, {}))
        return tuple(self.names.split(",")) if self.names else header_of(self.file, self._delimiter)

    def read(self, kinds: Mapping[str, str]) -> ParsedTable:
        """The columns of `kinds`."""
        if self._format == "parquet":
            return read_parquet(self.file.path, kinds)
        if self._format == "jsonl":
            return read_jsonlines(self.file, kinds, self.bad_lines)
        present = self.present()
        check_columns(self.file, present, kinds)
        layout = Layout(
            present,
            kinds,
            self._delimiter,
            header=not self.names,
            quoted=len(self._delimiter) == 1,
            time_format=self.time_format,
        )
        return read_delimited(self.file, layout, self.bad_lines)

    @property
    def _format(self) -> str:
        suffixes = [end for end in self.file.path.suffixes if end not in (".gz", ".xz")]
        file_format = self.file_format or FORMATS.get(
            suffixes[-1] if suffixes else "", "csv" if self.delimiter else ""
        )
        if file_format not in FORMATS.values():
            known = ", ".join(sorted(set(FORMATS.values())))
            raise ConfigError(
                f"{self.file.name}: expected a file format of {known}, got {file_format!r}; set file_format"
            )
        return file_format

    @property
    def _delimiter(self) -> str:
        delimiter = self.delimiter.replace("\\t", "\t")  # as passed by a shell
        if delimiter and (not delimiter.isascii() or set(delimiter) & set('"\r\n')):
            raise ConfigError(
                f"delimiter: expected ASCII characters without quotes and line ends, got {delimiter!r}"
            )
        return delimiter or DELIMITERS[self._format]


def _item_table(items: str, mapped: Mapping[str, str], raw: RawEvents, bad_lines: str) -> pa.Table:
    table = Table(one_file(items), bad_lines=bad_lines)
    named = {
        ours.removeprefix(OF_ITEM): theirs for ours, theirs in mapped.items() if ours.startswith(OF_ITEM)
    }
    present = table.present()
    extra = [name for name in ("title", "category") if name in present and name not in named]
    mapping: dict[str, str] = {"id": mapped["item"], **dict(zip(extra, extra, strict=True)), **named}
    found = table.read({theirs: ITEM_KINDS.get(ours, "any") for ours, theirs in mapping.items()})
    return attribute_table(found, "item", mapping.pop("id"), mapping, raw.items)
