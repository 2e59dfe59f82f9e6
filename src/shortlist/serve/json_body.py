"""Strict JSON: UTF-8, no NaN, no duplicate keys."""

import json
from typing import Any, NoReturn

from shortlist.serve.problems import RefusedError


def check_json(body: bytes) -> None:
    """Refuse a body that is not UTF-8, not JSON, nested too deeply, or has duplicate keys."""
    try:
        # As text: json would guess at UTF-16 and UTF-32 from bytes.
        json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error
    except ValueError as error:  # Python refuses integers of thousands of digits
        raise _malformed("a number has too many digits") from error


def _refuse_constant(literal: str) -> NoReturn:
    raise _malformed(f"{literal} is not a JSON number")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _malformed("an object holds the same key twice")
    return values


def _malformed(reason: str) -> RefusedError:
    return RefusedError("malformed-json", f"the body cannot be read: {reason}")
