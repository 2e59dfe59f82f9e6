"""A slow reader of text files for error messages: every record with its line number and its problem."""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO

from shortlist.data.raw_events import Place, Reject
from shortlist.data.tables.encodings import not_utf8
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import Layout
from shortlist.errors import DataError

BOM = b"\xef\xbb\xbf"
LONGEST = 100  # lines a quoted record may span; after that its quote counts as never closed

Line = tuple[int, bytes]


@dataclass(frozen=True)
class Record:
    """One record of a file: its first line (from 1), its bytes, its fields, its problem and what may help."""

    line: int
    raw: bytes
    fields: tuple[str, ...]
    problem: str
    hint: str = ""

    @property
    def text(self) -> str:
        """The record as text, in which bytes that are not UTF-8 are escaped."""
        return self.raw.decode("utf-8", "backslashreplace").rstrip("\r\n")

    def reject(self, file: str) -> Reject:
        return Reject(file, str(self.line), self.problem, self.text)


def records(file: File, layout: Layout) -> Iterator[Record]:
    """All records that are not blank, without the header."""
    with file.opened() as stream:
        lines = Lines(stream)
        for line, raw in lines:
            if line > int(layout.header) and raw.strip(b"\r\n"):
                yield _record(line, raw, layout, lines)


def parse_error(
    name: str, found: Iterable[Record], otherwise: str, same_form: int | None = None
) -> DataError:
    """The error for a file that Arrow could not read: it names the first bad line.

    If every line is valid by itself, it names the first whose field `same_form` has another format than in line 1.
    """
    first: Record | None = None
    odd: Record | None = None
    for record in found:
        if record.problem:
            return DataError(f"{name}:{record.line}: {record.problem}; {_advice(record)}")
        first = first or record
        if same_form is not None and odd is None and _shape(record, same_form) != _shape(first, same_form):
            odd = record
    if first is None or odd is None or same_form is None:
        return DataError(f"{name}: {otherwise.partition(chr(10))[0]}; check the file")
    expected, value = first.fields[same_form], odd.fields[same_form]
    return DataError(
        f"{name}:{odd.line}: expected a time written like {expected!r}, got {value!r}; use one format"
    )


def _shape(record: Record, field: int) -> str:
    return re.sub(r"[0-9]+", "0", record.fields[field])


def places_of(name: str, found: Iterable[Record], rows: Sequence[int]) -> list[Place]:
    """The places of the given valid records, in one pass."""
    asked, places = set(rows), dict[int, Place]()
    good = (record for record in found if not record.problem)
    for at, record in enumerate(islice(good, max(rows) + 1)):
        if at in asked:
            places[at] = Place(name, str(record.line), record.text)
    return [places.get(row, Place(name, "0", "")) for row in rows]


def split_records(found: Iterable[Record]) -> tuple[bytes, list[Record]]:
    """The valid records, one per line, and the bad ones."""
    good, bad = bytearray(), []
    for record in found:
        if record.problem:
            bad.append(record)
        else:
            good += record.raw.rstrip(b"\r\n") + b"\n"
    return bytes(good), bad


def usual_form(found: Iterable[Record], field: int) -> Record | None:
    """A valid record whose field is written as in most records."""
    firsts: dict[str, Record] = {}
    counts: Counter[str] = Counter()
    for record in found:
        if not record.problem:
            firsts.setdefault(form := _shape(record, field), record)
            counts[form] += 1
    return firsts[counts.most_common(1)[0][0]] if counts else None


def written_alike(found: Iterable[Record], field: int, usual: Record) -> Iterator[Record]:
    """The records; one whose time is not written like the usual one has a problem."""
    for record in found:
        if record.problem or _shape(record, field) == _shape(usual, field):
            yield record
        else:
            expected, value = usual.fields[field], record.fields[field]
            yield replace(record, problem=f"expected a time written like {expected!r}, got {value!r}")


class Lines:
    """The lines of a stream, numbered from 1; lines can be pushed back."""

    def __init__(self, stream: BinaryIO) -> None:
        self._ahead = _numbered(stream)
        self._back: deque[Line] = deque()

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> Line:
        return self._back.popleft() if self._back else next(self._ahead)

    def push_back(self, lines: Sequence[Line]) -> None:
        self._back.extendleft(reversed(lines))


def _numbered(stream: BinaryIO) -> Iterator[Line]:
    line = 0
    for chunk in stream:
        # A lone carriage return ends a line too, as in Arrow.
        for raw in chunk.removeprefix(BOM if line == 0 else b"").splitlines(keepends=True):
            line += 1
            yield line, raw


def _advice(record: Record) -> str:
    if record.hint:
        return record.hint
    if not record.raw.endswith((b"\n", b"\r")):
        return "the file seems truncated in its last line, download it again"
    return "fix the line, or skip such lines with --bad-lines skip"


def _record(line: int, raw: bytes, layout: Layout, lines: Lines) -> Record:
    problem, hint = not_utf8(raw)
    if problem:
        return Record(line, raw, (), problem, hint)
    if layout.quoted:
        return _quoted(line, raw, layout, lines)
    return _checked(line, raw, tuple(raw.decode().rstrip("\r\n").split(layout.delimiter)), layout)


def _checked(line: int, raw: bytes, fields: tuple[str, ...], layout: Layout) -> Record:
    problem = layout.problem(fields)
    return Record(line, raw, fields, problem, layout.hint(fields) if problem else "")


def _quoted(line: int, raw: bytes, layout: Layout, lines: Lines) -> Record:
    """A record whose quotes may span several lines; if they never close, only its first line is bad."""
    fields = _parsed(raw, layout)
    taken = [] if fields is not None else _until_closed(raw, lines)
    joined = raw + b"".join(more for _, more in taken)
    fields = fields if fields is not None else _parsed(joined, layout)
    if fields is not None:
        return _checked(line, joined, fields, layout)
    lines.push_back(taken)
    return Record(line, raw, (), "expected closed quotes, got an open one")


def _until_closed(raw: bytes, lines: Lines) -> list[Line]:
    taken: list[Line] = []
    quotes = raw.count(b'"')
    while quotes % 2 and len(taken) < LONGEST and (ahead := next(lines, None)) is not None:
        taken.append(ahead)
        quotes += ahead[1].count(b'"')
    return taken


def _parsed(raw: bytes, layout: Layout) -> tuple[str, ...] | None:
    text = [line.decode("utf-8", "replace") for line in raw.splitlines(keepends=True)]
    try:
        rows = list(csv.reader(text, delimiter=layout.delimiter, strict=True))
    except csv.Error:
        return None
    return tuple(rows[0]) if len(rows) == 1 else None
