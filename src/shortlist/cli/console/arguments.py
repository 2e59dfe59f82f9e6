"""Arguments of several verbs: pairs of key and value, and places to read."""

import sys
from collections.abc import Sequence
from typing import Any

from shortlist.errors import ConfigError


def pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    """Options of the form key=value."""
    return dict(_pair(text, flag) for text in texts)


def _pair(text: str, flag: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"{flag}: expected key=value, got {text!r}")
    return key, value


def source_of(paths: Sequence[str]) -> Any:
    """What `read` reads: one path, several, or standard input for `-`."""
    sources = [sys.stdin.buffer if path == "-" else path for path in paths]
    return sources if len(sources) > 1 else sources[0]
