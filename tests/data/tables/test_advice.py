"""Advice that names options of another command is replaced, the rest of a message stays."""

import pytest

from shortlist.data.tables.advice import without_options
from shortlist.errors import ConfigError, DataError


@pytest.mark.parametrize("kind", [DataError, ConfigError])
@pytest.mark.parametrize(
    ("message", "plain"),
    [
        (
            "f:3: got 'x'; fix the line, or skip such lines with --bad-lines skip",
            "f:3: got 'x'; fix the line",
        ),
        (
            "f:1: not clear from 'a b'; use --delimiter ',' or --delimiter ' '",
            "f:1: not clear from 'a b'; separate the columns by commas and name the file .csv",
        ),
        (
            "f:1: got the byte 0xE9; if the line reads 'a; b', use --encoding cp1252",
            "f:1: got the byte 0xE9; save the file as UTF-8",
        ),
        ("f:1: got the byte 0x9D; choose an --encoding", "f:1: got the byte 0x9D; save the file as UTF-8"),
        (
            "f:1: a zero in every other byte; use --encoding utf-16-le",
            "f:1: a zero in every other byte; save the file as UTF-8",
        ),
        (
            "f:2: expected a time; use --option time_format='%d.%m.%Y' or use --option time_format='%m.%d.%Y'",
            "f:2: expected a time; write ISO dates, or milliseconds since 1970",
        ),
        (
            "f: found a, b; name the column with --users-column a",
            "f: found a, b; name the column with --users-column a",
        ),
        (
            "f: cannot be read to its end; download it again",
            "f: cannot be read to its end; download it again",
        ),
    ],
)
def test_advice_names_no_option_of_another_command(kind, message, plain):
    with pytest.raises(kind) as caught, without_options():
        raise kind(message)
    assert str(caught.value) == plain
