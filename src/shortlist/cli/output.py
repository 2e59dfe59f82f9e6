"""Everything a verb prints: text is printed as it is, whatever a title, a name or an id contains.

Markup is not interpreted, and characters that control a terminal are printed as escapes such as \\x1b. Verbs print with
these three only: `echo`, `Console` and `Table`; a test reads their sources.
"""

import re
from typing import Any

import rich.console
import rich.table
import typer
from rich.text import Text

# C0 and C1 controls, line and paragraph separators, changes of text direction, lone surrogates.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, keep: str = "") -> str:
    """The text with control characters as escapes, except those in `keep`."""
    return CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def echo(text: str, err: bool = False) -> None:
    """Print one line."""
    typer.echo(visible(text), err=err)


def echo_lines(text: str, err: bool = False) -> None:
    """Print a text of several lines."""
    for line in text.split("\n"):
        echo(line, err=err)


class Console(rich.console.Console):
    """A Rich console that prints lines and tables without markup, emoji codes and highlighting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "markup": False, "emoji": False, "highlight": False})

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Headers, titles and captions of tables: their line breaks are ours."""
        return super().render_str(visible(text, keep="\n"), **options)


class Table(rich.table.Table):
    """A Rich table whose cells are lines: a line break in a cell is printed as an escape too."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(visible(one) if isinstance(one, str) else one for one in cells), **options)
