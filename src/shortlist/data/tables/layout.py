"""The layout of a delimited text file: columns, their kinds, and the check of a line."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
INTEGER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
# Patterns that both Arrow and `re` support.
PATTERNS: Mapping[str, str] = {
    "list": r"^(-?[0-9]{1,18}(,-?[0-9]{1,18})*)?$",
    "clicks": r"^[^ ]+-[01]( [^ ]+-[01])*$",
}


TIME_FORMATS = tuple(
    day + clock
    for day in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d")
    for clock in ("", " %H:%M", " %H:%M:%S")
)


@dataclass(frozen=True)
class Layout:
    """All columns of a file in their order, and the kinds of those that are read: id, integer, number, ..."""

    names: tuple[str, ...]
    kinds: Mapping[str, str]
    delimiter: str = ","
    header: bool = False
    quoted: bool = False
    time_format: str = ""
    decimal: str = "."

    @cached_property
    def positions(self) -> Mapping[str, int]:
        return {name: self.names.index(name) for name in self.kinds}

    def problem(self, fields: Sequence[str]) -> str:
        """The problem with the fields of one line; empty if there is none."""
        if len(fields) != len(self.names):
            return f"expected {len(self.names)} fields ({self._format}), got {len(fields)}"
        if (name := self._bad_column(fields)) is None:
            return ""
        what, text = self._rule(self.kinds[name])[0], fields[self.positions[name]]
        return f"expected {what} as {name!r}, got {text[:40]!r}"

    def hint(self, fields: Sequence[str]) -> str:
        """The option that may read a line with a problem; empty if none is known."""
        if len(fields) != len(self.names) or (name := self._bad_column(fields)) is None:
            return ""
        kind, text = self.kinds[name], fields[self.positions[name]]
        return _time_hint(text) if kind == "time" else self._number_hint(text)

    def _bad_column(self, fields: Sequence[str]) -> str | None:
        wrong = (
            name for name, kind in self.kinds.items() if not self._accepts(kind, fields[self.positions[name]])
        )
        return next(wrong, None)

    def _accepts(self, kind: str, text: str) -> bool:
        if self.decimal != "." and kind in ("number", "number?", "time"):
            text = "?" if "." in text else text.replace(self.decimal, ".")
        return self._rule(kind)[1](text)

    def _number_hint(self, text: str) -> str:
        other = "." if self.decimal == "," else ","
        swapped = is_number(text.replace(other, ".")) and text.count(other) == 1
        return f"if {other!r} separates the decimals, use --decimal '{other}'" if swapped else ""

    def _rule(self, kind: str) -> tuple[str, Callable[[str], bool]]:
        own = kind == "time" and self.time_format
        return (f"a time like {self.time_format}", self._is_formatted) if own else KINDS[kind]

    @property
    def _format(self) -> str:
        return self.delimiter.join(self.names[:8]) + (" ..." if len(self.names) > 8 else "")

    def _is_formatted(self, text: str) -> bool:
        return _parses(text, self.time_format)


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal number."""
    return bool(NUMBER.fullmatch(text)) and math.isfinite(float(text))


def is_time(text: str) -> bool:
    """Whether a text is a number or an ISO 8601 date."""
    if is_number(text):
        return True
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def _time_hint(text: str) -> str:
    """The formats that read a time which is neither a number nor an ISO date."""
    fits = [form for form in TIME_FORMATS if _parses(text.strip(), form)]
    return " or ".join(f"use --option time_format='{form}'" for form in fits)


def _parses(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _is_integer(text: str) -> bool:
    return bool(INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


KINDS: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "id": ("an id", lambda text: True),
    "text": ("text", lambda text: True),
    "any": ("anything", lambda text: True),
    "attribute": ("anything", lambda text: True),
    "integer": ("a whole number", _is_integer),
    "number": ("a number", is_number),
    "number?": ("a number or nothing", lambda text: text == "" or is_number(text)),
    "time": ("a time (a number or an ISO date)", is_time),
    "list": ("whole numbers separated by commas", lambda text: bool(re.search(PATTERNS["list"], text))),
    "clicks": ("impressions like 'N1-0 N2-1'", lambda text: bool(re.search(PATTERNS["clicks"], text))),
}
