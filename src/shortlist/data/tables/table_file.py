"""A file of rows: its format, its delimiter and its columns, as given or as detected."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from shortlist.data.tables.delimited import check_columns, header_of, read_delimited
from shortlist.data.tables.encodings import check_encoding
from shortlist.data.tables.files import File
from shortlist.data.tables.jsonlines import first_object, read_jsonlines
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parquet import parquet_names, read_parquet
from shortlist.data.tables.parsed import ParsedTable, joined
from shortlist.data.tables.sniff import sniff_decimal, sniff_delimiter, sniff_format, typed, widest
from shortlist.data.tables.text_times import with_parsed_times
from shortlist.errors import ConfigError, DataError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
USUAL = {".csv": ",", ".tsv": "\t", "csv": ",", "tsv": "\t"}


@dataclass(frozen=True)
class Table:
    """A file of rows; an empty option is detected. `needed` maps columns it must have to the options that name them."""

    file: File
    needed: Mapping[str, str] = field(default_factory=dict)
    file_format: str = ""
    delimiter: str = ""
    decimal: str = ""
    names: str = ""
    time_format: str = ""
    bad_lines: str = "refuse"

    def present(self) -> tuple[str, ...]:
        """The names of all columns."""
        if self._format == "parquet":
            return parquet_names(self.file)
        if self._format == "jsonl":
            return tuple(first_object(self.file, {}))
        return tuple(self.names.split(",")) if self.names else self._header()

    def read(self, kinds: Mapping[str, str]) -> ParsedTable:
        """The columns of `kinds`."""
        if self._format == "parquet":
            return read_parquet(self.file, kinds, self.bad_lines, self.needed, self.time_format)
        if self._format == "jsonl":
            return self._from_json(kinds)
        return read_delimited(self.file, self._layout(kinds), self.bad_lines)

    def _header(self) -> tuple[str, ...]:
        """The names in the first line; a delimiter that does not occur there is refused with one that does."""
        names = header_of(self.file, self._delimiter)
        other = widest(names[0]) if self.delimiter and len(names) == 1 and {*self.needed} - {*names} else ""
        if other:
            raise ConfigError(
                f"{self.file.name}:1: expected columns separated by {typed(self._delimiter)}, got {names[0][:60]!r}; "
                f"use --delimiter {typed(other)}"
            )
        return names

    def _from_json(self, kinds: Mapping[str, str]) -> ParsedTable:
        """JSON lines; times of a given form are read as text and parsed after that."""
        own = {name: "text" if kind == "time" and self.time_format else kind for name, kind in kinds.items()}
        return with_parsed_times(read_jsonlines(self.file, own, self.bad_lines), kinds, self.time_format)

    def _layout(self, kinds: Mapping[str, str]) -> Layout:
        present = self.present()
        check_columns(self.file, present, kinds, self.needed)
        numbers = [present.index(name) for name, kind in kinds.items() if kind == "number"]
        return Layout(
            present,
            kinds,
            self._delimiter,
            header=not self.names,
            quoted=len(self._delimiter) == 1,
            time_format=self.time_format,
            decimal=self._decimal(numbers),
        )

    @cached_property
    def _format(self) -> str:
        found = self.file_format or FORMATS.get(
            _suffix(self.file), "csv" if self.delimiter else sniff_format(self.file)
        )
        if found not in FORMATS.values():
            known = ", ".join(sorted(set(FORMATS.values())))
            raise ConfigError(
                f"{self.file.name}: expected a file format of {known}, got {found!r}; "
                "name it as the format, or set --option file_format=csv"
            )
        return found

    @cached_property
    def _delimiter(self) -> str:
        delimiter = self.delimiter.replace("\\t", "\t")  # as passed by a shell
        if delimiter and (not delimiter.isascii() or set(delimiter) & set('"\r\n')):
            raise ConfigError(
                f"--delimiter: expected ASCII characters without quotes and line ends, got {delimiter!r}"
            )
        names = self.names.split(",") if self.names else ()
        return delimiter or sniff_delimiter(self.file, self.needed, names, self._usual)

    @property
    def _usual(self) -> str:
        return USUAL.get(self.file_format or _suffix(self.file), "")

    def _decimal(self, numbers: Collection[int]) -> str:
        if self.decimal not in ("", ".", ","):
            raise ConfigError(f"--decimal: expected '.' or ',', got {self.decimal!r}")
        return self.decimal or sniff_decimal(self.file, self._delimiter, numbers)


@dataclass(frozen=True)
class Tables:
    """Several files with the same columns, as one table."""

    parts: tuple[Table, ...]

    def present(self) -> tuple[str, ...]:
        """The names of all columns; a file with other columns is refused."""
        first, *others = self.parts
        names = first.present()
        for other in others:
            _check_same(first, names, other)
        return names

    def read(self, kinds: Mapping[str, str]) -> ParsedTable:
        """The columns of `kinds` of all files."""
        return joined([part.read(kinds) for part in self.parts])


def has_table_suffix(file: File) -> bool:
    """Whether the name of a file says that it is a table."""
    return _suffix(file) in FORMATS


def _suffix(file: File) -> str:
    return next(iter(file.suffixes[-1:]), "").lower()


def tables_of(files: Sequence[File], encoding: str, first: Table) -> Tables:
    """The files with the options of `first`."""
    encoding = check_encoding(encoding)
    return Tables(tuple(replace(first, file=replace(file, encoding=encoding)) for file in files))


def _check_same(first: Table, names: tuple[str, ...], other: Table) -> None:
    # The keys of a JSON object may differ from line to line; a missing one is an error of its line.
    found = other.present()
    if set(found) != set(names) and "jsonl" not in (first._format, other._format):
        raise DataError(
            f"{other.file.name}: expected the columns of {first.file.name} ({', '.join(names)[:120]}), "
            f"got {', '.join(found)[:120]}; leave the file out, for example with a pattern like 'FOLDER/*.csv'"
        )
