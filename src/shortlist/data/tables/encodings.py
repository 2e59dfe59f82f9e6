"""Text encodings: any encoding is read as UTF-8, and a byte that does not fit is reported with its line."""

import codecs
import io
from typing import BinaryIO

from shortlist.errors import ConfigError, DataError

CHUNK = 1 << 20
MARKS = {  # byte-order marks; the longer one first, because one begins with the other
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
GUESSES = ("cp1252", "latin-1")


def check_encoding(encoding: str) -> str:
    """The canonical name of an encoding."""
    try:
        return codecs.lookup(encoding).name if encoding else ""
    except LookupError as error:
        raise ConfigError(
            f"--encoding: expected the name of an encoding such as utf-8, utf-16 or cp1252, got {encoding!r}"
        ) from error


def marked_encoding(start: bytes) -> str:
    """The encoding that the first bytes of a file announce; empty if they announce none."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "")


def as_utf8(stream: BinaryIO, encoding: str, name: str) -> BinaryIO:
    """The same text as UTF-8; `name` is the file in an error message."""
    return (
        io.BufferedReader(Recoded(stream, encoding, name), CHUNK) if encoding not in ("", "utf-8") else stream
    )


class Recoded(io.RawIOBase):
    """A stream of another encoding, read as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, name: str) -> None:
        self._stream, self._encoding, self._name = stream, encoding, name
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line, self._ready, self._ended = 1, b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            self._ready = self._next()
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _next(self) -> bytes:
        raw = self._stream.read(CHUNK)
        self._ended = not raw
        try:
            text = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            raise self._refusal(error) from error
        self._line += text.count("\n")
        return text.encode()

    def _refusal(self, error: UnicodeDecodeError) -> DataError:
        before = error.object[: error.start].decode(self._encoding, "ignore")
        bad = error.object[error.start : error.start + 1]
        return DataError(
            f"{self._name}:{self._line + before.count(chr(10))}: expected {self._encoding} text, "
            f"got the byte {_hex(bad)}; choose another --encoding"
        )


def not_utf8(raw: bytes) -> tuple[str, str]:
    """The problem with a line that is not UTF-8, and the advice: the encoding that reads it."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        bad = raw[error.start : error.start + 1]
        problem = f"expected utf-8 text, got the byte {_hex(bad)} at position {error.start + 1}"
        return problem, _advice(raw)
    return "", ""


def _advice(raw: bytes) -> str:
    for encoding in GUESSES:
        try:
            text = raw.decode(encoding).strip()
        except UnicodeDecodeError:
            continue
        return f"if the line reads {text[:60]!r}, use --encoding {encoding}"
    return "choose an --encoding"


def _hex(byte: bytes) -> str:
    return f"0x{byte.hex().upper()}"
