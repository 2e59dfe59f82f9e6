"""Readers by name, one small file per format."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shortlist.data.raw import Raw
from shortlist.data.sources.amazon import read_amazon
from shortlist.data.sources.dtr import read_dtr
from shortlist.data.sources.jodie import read_jodie
from shortlist.data.sources.kuairec import read_kuairec
from shortlist.data.sources.lastfm import read_lastfm
from shortlist.data.sources.mind import read_mind
from shortlist.data.sources.movielens import read_movielens
from shortlist.data.sources.sequences import read_sequences
from shortlist.data.sources.tabular import read_tabular
from shortlist.data.sources.taobao import read_taobao
from shortlist.data.sources.tmall import read_tmall
from shortlist.data.sources.xmc import read_xmc
from shortlist.errors import ConfigError

Reader = Callable[..., Raw]

SOURCES: Mapping[str, Reader] = {
    "amazon": read_amazon,
    "dtr": read_dtr,
    "jodie": read_jodie,
    "kuairec": read_kuairec,
    "lastfm": read_lastfm,
    "mind": read_mind,
    "movielens": read_movielens,
    "sequences": read_sequences,
    "tabular": read_tabular,
    "taobao": read_taobao,
    "tmall": read_tmall,
    "xmc": read_xmc,
}

FORMS = ("csv", "tsv", "jsonl", "parquet")  # other names of `tabular`, which tell it the form


def read(name: str, path: Path | str, **options: Any) -> Raw:
    """Read a log with the reader called `name`."""
    if name not in SOURCES and name not in FORMS:
        told = f"{', '.join(SOURCES)}, or a form of table ({', '.join(FORMS)})"
        raise ConfigError(f"source: expected one of {told}, got {name!r}")
    known = options_of(name)
    for option in options:
        if option not in known:
            raise ConfigError(f"{name}: expected an option of {', '.join(known) or 'none'}, got {option!r}")
    return read_tabular(path, form=name, **options) if name in FORMS else SOURCES[name](path, **options)


def options_of(name: str) -> tuple[str, ...]:
    """What the reader called `name` can be told besides the path."""
    known = tuple(inspect.signature(SOURCES["tabular" if name in FORMS else name]).parameters)[1:]
    return tuple(option for option in known if not (option == "form" and name in FORMS))
