"""Everything a verb prints: text is printed as it is, whatever a title, a name or an id contains.

Markup is not interpreted, and characters that control a terminal are printed as escapes such as \\x1b. Verbs print with
these three only: `echo`, `Console` and `Table`; a test reads their sources.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import rich.console
import rich.table
import typer
from rich.text import Text

from shortlist.errors import visible


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

    def print_notes(self, rules: Mapping[str, object], warnings: Sequence[str]) -> None:
        """Print how something was measured, and what is to be known about it."""
        for name, rule in rules.items():
            self.print(f"{name}: {rule}")
        for warning in warnings:
            self.print(f"warning: {warning}", style="yellow")

    def render_str(self, text: str, **options: Any) -> Text:
        """Headers, titles and captions of tables: their line breaks are ours."""
        return super().render_str(visible(text, keep="\n"), **options)


class Table(rich.table.Table):
    """A Rich table whose cells are lines: a line break in a cell is printed as an escape too.

    A cell that is too long goes on in the next line: an id that was cut could not be copied.
    """

    def add_column(self, *header: Any, **options: Any) -> None:
        whole = {} if options.get("no_wrap") else {"overflow": "fold"}
        super().add_column(*header, **{**whole, **options})

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(visible(one) if isinstance(one, str) else one for one in cells), **options)
