"""A body that is not one plain JSON value in UTF-8 is refused, with the place and the reason."""

import json
from typing import Any, NoReturn

from shortlist.serve.problems import RefusedError

REASONS = {  # messages of the parser of Python, without their last words
    "Extra data": "a second value begins",
    "Unterminated string": "a string has no end",
    "Invalid control character": "a string holds a control character; escape it",
    "Invalid \\": "a string holds an invalid escape",
}


def check_json(body: bytes) -> None:
    """Refuse a body that is not UTF-8, not JSON, nested too deeply, or has duplicate keys."""
    try:
        # As text: json would guess at UTF-16 and UTF-32 from bytes.
        json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        raise _malformed(f"{_reason(error)} at line {error.lineno} column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8; send the body in UTF-8") from error
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error
    except ValueError as error:  # Python refuses integers of thousands of digits
        raise _malformed("a number has too many digits") from error


def _reason(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "it is empty; send at least {}"
    if error.doc.startswith("\ufeff"):
        return "it begins with a byte order mark; send it without"
    known = (reason for begin, reason in REASONS.items() if error.msg.startswith(begin))
    return next(known, f"{_found(error)} is not expected")


def _found(error: json.JSONDecodeError) -> str:
    found = error.doc[error.pos : error.pos + 1]
    return ascii(found) if found else "the end of the body"


def _refuse_constant(literal: str) -> NoReturn:
    raise _malformed(f"{literal} is not a JSON number; send null or leave the field out")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _malformed(f"an object holds the key {key[:40]!a} twice")
        values[key] = value
    return values


def _malformed(reason: str) -> RefusedError:
    return RefusedError("malformed-json", f"the body cannot be read: {reason}")
