"""Errors of the package: a message says what was expected, what was found and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class ShortlistError(Exception):
    """Base class of all errors; the message is meant for the user."""


class DataError(ShortlistError):
    """A data file or column is invalid."""


class ConfigError(ShortlistError):
    """A setting, a TOML file or a command-line option is invalid."""


class ArtifactError(ShortlistError):
    """A saved artifact failed verification."""


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
