"""Errors of tables for commands that have no options for the format of a file."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from shortlist.errors import ConfigError, DataError

PLAIN: Mapping[
    str, str
] = {  # advice at the end of a message that names an option -> the same without options
    r"(,? or)? skip such (lines|rows) with --bad-lines skip": "",
    r"; use --delimiter .*": "; separate the columns by commas and name the file .csv",
    r"; (if the line reads .*, use|choose an|choose another|use) --encoding.*": "; save the file as UTF-8",
    r"; name it as the format, or set --option .*": "; write it in one of these",
    r"; (use|name their form with) --option time_format.*": "; write ISO dates, or milliseconds since 1970",
    r"; map another column": "; write the column in this form",
}


@contextmanager
def without_options() -> Iterator[None]:
    """Errors inside the block give no advice that names an option of `shortlist data prepare`."""
    try:
        yield
    except (DataError, ConfigError) as error:
        raise type(error)(_plain(str(error))) from error


def _plain(message: str) -> str:
    for advice, plain in PLAIN.items():
        message = re.sub(f"{advice}$", plain, message, flags=re.DOTALL)
    return message
