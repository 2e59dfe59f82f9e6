"""What is wrong with a field of a request, in the words of the service."""

import json
from collections.abc import Mapping
from typing import Any

SHOWN = 40  # characters of a value in a message

EXPECTED: Mapping[str, str] = {  # by the type of the error of pydantic
    "model_attributes_type": "expected a JSON object",
    "model_type": "expected a JSON object",
    "dict_type": "expected a JSON object",
    "list_type": "expected a list of ids",
    "bool_type": "expected true or false",
}


def message_of(error: Mapping[str, Any], fields: str = "") -> str:
    """The message of one validation error; `fields` are the names that a request may have."""
    kind = error["type"]
    if kind == "missing":
        return "the field is required"
    if kind == "extra_forbidden":
        return f"there is no such field; expected one of {fields}" if fields else "there is no such field"
    if kind == "too_long":
        length = error["ctx"]
        what = "events" if "events" in error["loc"] else "ids"
        return f"expected at most {length['max_length']} {what}, got {length['actual_length']}"
    if kind == "list_type" and "events" in error["loc"]:
        return f"expected a list of events, got {shown(error['input'])}"
    if kind in EXPECTED:
        return f"{EXPECTED[kind]}, got {shown(error['input'])}"
    return str(error["msg"])  # of our own validators


def shown(value: object) -> str:
    """A value as short ASCII JSON."""
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
