"""Errors of the operating system with the path that the user typed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Raise errors of the operating system with `path`, which the user typed, in place of a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or _is_elsewhere(error.filename, path):
            raise
        raise renamed(error, path) from error


def renamed(error: OSError, path: Path) -> OSError:
    """The same error with another path."""
    return OSError(error.errno, os.strerror(error.errno or 0), str(path))


def _is_elsewhere(filename: object, path: Path) -> bool:
    """Whether an error is about a file that is neither beside nor above `path`, such as an input."""
    if not isinstance(filename, str | os.PathLike):
        return False
    named = Path(os.path.abspath(filename))
    parent = Path(os.path.abspath(path)).parent
    return not (named.is_relative_to(parent) or parent.is_relative_to(named))
