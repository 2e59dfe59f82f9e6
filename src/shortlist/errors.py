"""Errors of the package: a message says what was expected, what was found and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# C0 and C1 controls, line and paragraph separators, changes of text direction, lone surrogates.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class ShortlistError(Exception):
    """Base class of all errors; the message is meant for the user."""


class DataError(ShortlistError):
    """A data file or column is invalid."""


class ConfigError(ShortlistError):
    """A setting, a TOML file or a command-line option is invalid."""


class ArtifactError(ShortlistError):
    """A saved artifact failed verification."""


class VersionMismatch(ShortlistError):  # noqa: N818 - the name in the literature on state services
    """User states of one model version were asked for with another one."""


class GrammarError(ShortlistError):
    """Stages were combined in an invalid way, or a stage breaks its contract."""


class ConservationError(ShortlistError):
    """A stage lost, duplicated or invented a candidate."""


class MissingExtraError(ShortlistError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}; install it with: pip install 'shortlist[{extra}]'"
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the closest known ones, empty without any."""
    close = get_close_matches(word, list(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def visible(text: str, keep: str = "") -> str:
    """The text with control characters as escapes such as \\x1b, except those in `keep`."""
    return CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)
