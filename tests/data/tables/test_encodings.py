import io

import pytest

from shortlist.data.tables.encodings import as_utf8, check_encoding, marked_encoding, not_utf8
from shortlist.data.tables.files import File
from shortlist.errors import ConfigError, DataError


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252", "latin-1", "shift_jis"])
def test_any_encoding_is_read_as_utf_8(encoding):
    text = "user,item\ncaf\xe9,1\n" if encoding != "shift_jis" else "user,item\n本,1\n"
    stream = as_utf8(io.BytesIO(text.encode(encoding)), encoding, "log")
    assert stream.read() == text.encode()


def test_a_character_may_lie_across_two_chunks(monkeypatch):
    monkeypatch.setattr("shortlist.data.tables.encodings.CHUNK", 3)
    assert as_utf8(io.BytesIO("aé本b".encode("utf-16")), "utf-16", "log").read() == "aé本b".encode()


def test_a_byte_that_does_not_fit_is_reported_with_its_line():
    stream = as_utf8(io.BytesIO(b"user\nann\nren\xe9e\n"), "ascii", "log.csv")
    message = r"^log.csv:3: expected ascii text, got the byte 0xE9; choose another --encoding$"
    with pytest.raises(DataError, match=message):
        stream.read()


def test_a_byte_order_mark_says_the_encoding(put):
    assert marked_encoding(b"\xff\xfeu\x00") == "utf-16"
    assert marked_encoding("u".encode("utf-32")) == "utf-32"
    assert marked_encoding(b"user") == ""
    with File(put("log.csv", "é".encode("utf-16"))).opened() as stream:
        assert stream.read() == "é".encode()


def test_a_line_that_is_not_utf_8_comes_with_the_encoding_that_reads_it():
    problem, advice = not_utf8(b"caf\xe9,1\n")
    assert problem == "expected utf-8 text, got the byte 0xE9 at position 4"
    assert advice == "if the line reads 'café,1', use --encoding cp1252"
    assert not_utf8(b"\x81\n")[1].endswith("use --encoding latin-1")  # no character in cp1252
    assert not_utf8("café".encode()) == ("", "")


def test_an_unknown_encoding_is_refused():
    assert (check_encoding(""), check_encoding("UTF8"), check_encoding("latin-1")) == (
        "",
        "utf-8",
        "iso8859-1",
    )
    with pytest.raises(ConfigError, match=r"^--encoding: expected the name of an encoding .*, got 'utf-9'$"):
        check_encoding("utf-9")
