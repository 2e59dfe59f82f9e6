"""Readers by name, one small file per format."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shortlist.data.raw import Raw
from shortlist.data.sources.dtr import read_dtr
from shortlist.data.sources.movielens import read_movielens
from shortlist.data.sources.tabular import read_tabular
from shortlist.errors import ConfigError

Reader = Callable[..., Raw]

SOURCES: Mapping[str, Reader] = {
    "dtr": read_dtr,
    "movielens": read_movielens,
    "tabular": read_tabular,
}


def read(name: str, path: Path | str, **options: Any) -> Raw:
    """Read a log with the reader called `name`."""
    if name not in SOURCES:
        raise ConfigError(f"source: expected one of {', '.join(sorted(SOURCES))}, got {name!r}")
    known = options_of(name)
    for option in options:
        if option not in known:
            raise ConfigError(f"{name}: expected an option of {', '.join(known)}, got {option!r}")
    return SOURCES[name](path, **options)


def options_of(name: str) -> tuple[str, ...]:
    """What the reader called `name` can be told besides the path."""
    return tuple(inspect.signature(SOURCES[name]).parameters)[1:]
