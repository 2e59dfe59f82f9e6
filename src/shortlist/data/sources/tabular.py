"""Any table of events: CSV, TSV, JSON lines or Parquet, with the columns you name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from shortlist.data.raw import Raw
from shortlist.data.sources.delimited import check_columns, header_of, read_delimited
from shortlist.data.sources.door import admit, describe
from shortlist.data.sources.files import File, one_file
from shortlist.data.sources.found import Found
from shortlist.data.sources.jsonlines import first_object, read_jsonlines
from shortlist.data.sources.layout import Layout
from shortlist.data.sources.parquet import parquet_names, read_parquet
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
OF_ITEM = "item."  # columns of the second file, which tells of items


def read_tabular(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    items: str = "",
    form: str = "",
    delimiter: str = "",
    names: str = "",
    unit: str = "auto",
    time_format: str = "",
    bad_lines: str = "refuse",
) -> Raw:
    """Read events; `columns` maps `user`, `item`, `time`, `weight` and further columns to names in the file.

    `items` is a second file that tells of items: `item.id`, `item.title`, `item.category` name its columns.
    `names` lists the columns of a text file without a header, with commas between them. `form` (csv, tsv,
    jsonl, parquet) and `delimiter` are guessed from the name of the file. Times are numbers (`unit`: auto, s,
    ms, us, ns), ISO dates, or text of `time_format`.
    """
    given = {"user": "user", "item": "item", **(columns or {})}
    table = Table(one_file(path), form, delimiter, names, time_format, bad_lines)
    wanted = table.chosen({ours: theirs for ours, theirs in given.items() if not ours.startswith(OF_ITEM)})
    found = table.read({theirs: EVENT_KINDS.get(ours, "any") for ours, theirs in wanted.items()})
    carry = {ours: theirs for ours, theirs in wanted.items() if ours not in EVENT_KINDS}
    raw = admit(
        found,
        user=wanted["user"],
        item=wanted["item"],
        time=wanted.get("time"),
        weight=wanted.get("weight"),
        unit=unit,
        carry=carry,
    )
    return replace(raw, described=_described(items, given, raw, bad_lines)) if items else raw


EVENT_KINDS = {"user": "id", "item": "id", "time": "time", "weight": "number"}
ITEM_KINDS = {"id": "id", "title": "text", "category": "text"}


@dataclass(frozen=True)
class Table:
    """A file of rows and how it is written."""

    file: File
    form: str = ""
    delimiter: str = ""
    names: str = ""
    time_format: str = ""
    bad_lines: str = "refuse"

    def chosen(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """The wanted columns, and `time` and `weight` where a file has columns of that very name."""
        present = self.present()
        extra = [name for name in ("time", "weight") if name in present and name not in wanted]
        return {**wanted, **dict(zip(extra, extra, strict=True))}

    def present(self) -> tuple[str, ...]:
        """The names of all columns."""
        if self._form == "parquet":
            return parquet_names(self.file.path)
        if self._form == "jsonl":
            return tuple(first_object(self.file, {}))
        return tuple(self.names.split(",")) if self.names else header_of(self.file, self._delimiter)

    def read(self, kinds: Mapping[str, str]) -> Found:
        """The columns of `kinds`."""
        if self._form == "parquet":
            return read_parquet(self.file.path, kinds)
        if self._form == "jsonl":
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
    def _form(self) -> str:
        suffixes = [end for end in self.file.path.suffixes if end not in (".gz", ".xz")]
        form = self.form or FORMATS.get(suffixes[-1] if suffixes else "", "csv" if self.delimiter else "")
        if form not in FORMATS.values():
            known = ", ".join(sorted(set(FORMATS.values())))
            raise ConfigError(f"{self.file.name}: expected a form of {known}, got {form!r}; give form=")
        return form

    @property
    def _delimiter(self) -> str:
        given = self.delimiter.replace("\\t", "\t")  # as a shell passes it on
        if given and (not given.isascii() or set(given) & set('"\r\n')):
            raise ConfigError(f"delimiter: expected plain characters, no quotes or line ends, got {given!r}")
        return given or DELIMITERS[self._form]


def _described(items: str, given: Mapping[str, str], raw: Raw, bad_lines: str) -> pa.Table:
    table = Table(one_file(items), bad_lines=bad_lines)
    named = {ours.removeprefix(OF_ITEM): theirs for ours, theirs in given.items() if ours.startswith(OF_ITEM)}
    present = table.present()
    extra = [name for name in ("title", "category") if name in present and name not in named]
    wanted: dict[str, str] = {"id": given["item"], **dict(zip(extra, extra, strict=True)), **named}
    found = table.read({theirs: ITEM_KINDS.get(ours, "any") for ours, theirs in wanted.items()})
    return describe(found, "item", wanted.pop("id"), wanted, raw.items)
