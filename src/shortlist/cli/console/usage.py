"""Errors in the type or range of an option, as the library words its own."""

from typing import Any

import typer

EXPECTED = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
}


def reworded(error: typer.BadParameter) -> typer.BadParameter:
    """The error with what was expected and what was given, where Typer's own words are those of its validator."""
    causes: list[Any] = getattr(error.__cause__, "errors", list)()
    if causes and (expected := EXPECTED.get(causes[0]["type"])):
        what = expected.format(**causes[0].get("ctx", {}))
        error.message = f"expected {what}, got {causes[0]['input']}"
    return error
