"""Detection of what a text file does not say: its format, its delimiter, its decimal point."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from shortlist.data.tables.files import File
from shortlist.errors import ConfigError, DataError

DELIMITERS = (",", ";", "\t", "|", "::", " ")
SAMPLE = 1 << 16  # bytes
LINES = 100
COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*", re.ASCII)
WORDS = {"\t": "'\\t'"}  # how a delimiter is typed in a shell

Rows = list[list[str]]


def sniff_delimiter(file: File, columns: Collection[str], names: Sequence[str], usual: str) -> str:
    """The delimiter that yields these columns, or without header as many fields as names; `usual` wins a tie."""
    lines = sample(file)
    fits = [mark for mark in DELIMITERS if _fits(lines, mark, columns, names)]
    if usual in fits or not lines:
        return usual or ","
    if len(fits) > 1:
        choices = " or ".join(f"--delimiter {typed(mark)}" for mark in fits)
        raise ConfigError(f"{file.name}:1: its delimiter is not clear from {lines[0][:60]!r}; use {choices}")
    return fits[0] if fits else _widest(file, lines, usual)


def sniff_decimal(file: File, delimiter: str, positions: Collection[int]) -> str:
    """A comma if numbers are written like 4,5 in a file whose delimiter is not a comma, else a point."""
    if delimiter == "," or not positions:
        return "."
    rows = _split(sample(file), delimiter)
    values = [row[at] for row in rows for at in positions if at < len(row)]
    return "," if any(map(COMMA.fullmatch, values)) and not any("." in value for value in values[1:]) else "."


def sniff_format(file: File) -> str:
    """parquet, jsonl or csv, from the first bytes; empty if they show none."""
    with file.binary() as stream:
        if stream.read(4) == b"PAR1":
            return "parquet"
    lines = sample(file)
    if lines and lines[0].lstrip().startswith("{"):
        return "jsonl"
    return "csv" if lines and max(_widths(lines[0]).values()) > 1 else ""


def sample(file: File) -> list[str]:
    """The first lines that are not blank."""
    with file.opened() as stream:
        start = stream.read(SAMPLE)
    _check_utf16(file, start)
    lines = start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()
    whole = lines if len(start) < SAMPLE else lines[:-1]
    return list(islice((line for line in whole if line.strip()), LINES))


def typed(delimiter: str) -> str:
    """A delimiter as typed in a shell."""
    return WORDS.get(delimiter, f"'{delimiter}'")


def widest(line: str) -> str:
    """The delimiter with most fields in a line; empty if none occurs."""
    widths = _widths(line)
    best = max(DELIMITERS, key=lambda mark: widths[mark])
    return best if widths[best] > 1 else ""


def _check_utf16(file: File, start: bytes) -> None:
    """Text in UTF-16 without a byte-order mark has a zero in every other byte."""
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = start[first:200:2]
        if len(half) > 4 and half.count(0) > 0.9 * len(half):
            raise DataError(
                f"{file.name}:1: expected utf-8 text, got text with a zero in every other byte; "
                f"use --encoding {encoding}"
            )


def _fits(lines: Sequence[str], mark: str, columns: Collection[str], names: Sequence[str]) -> bool:
    rows = _split(lines, mark)
    if not names:
        return bool(rows) and set(columns) <= {name.strip() for name in rows[0]}
    return 2 * sum(len(row) == len(names) for row in rows) > len(rows)


def _split(lines: Sequence[str], mark: str) -> Rows:
    if len(mark) > 1:
        return [line.split(mark) for line in lines]
    try:
        return list(csv.reader(lines, delimiter=mark))
    except csv.Error:
        return [line.split(mark) for line in lines]


def _widths(line: str) -> dict[str, int]:
    return {mark: len(line.split(mark)) for mark in DELIMITERS}


def _widest(file: File, lines: Sequence[str], usual: str) -> str:
    """The delimiter with most fields in the first line, so that an error can list its columns."""
    if usual and _widths(lines[0])[usual] > 1:
        return usual
    if best := widest(lines[0]):
        return best
    others = Counter(re.findall(r"[^\w\s\"'.-]", lines[0])).most_common(1)
    if others:
        raise ConfigError(
            f"{file.name}:1: expected fields separated by a comma, semicolon, tab, |, :: or space, "
            f"got {lines[0][:60]!r}; use --delimiter {typed(others[0][0])}"
        )
    return usual or ","
