"""Readers of log formats by name, one file per format."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from shortlist.data.raw_events import RawEvents
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
from shortlist.data.tables.frames import Frame, frame_name, is_frame
from shortlist.data.tables.log_files import Source
from shortlist.errors import ConfigError

__all__ = [
    "READERS",
    "TABLE_FORMATS",
    "Frame",
    "Source",
    "is_frame",
    "options_of",
    "read_source",
    "source_name",
]

Reader = Callable[..., RawEvents]

READERS: Mapping[str, Reader] = {
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

TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")  # `tabular` with this file format

FLAGS = (
    "items",
    "users",
    "delimiter",
    "encoding",
    "decimal",
    "bad_lines",
)  # options with a flag of their own


def read_source(format: str, path: Source | Frame | Sequence[Source], **options: Any) -> RawEvents:
    """Read a log with the reader of a format; only tables may be frames, streams or several files."""
    known = options_of(format)
    for option in options:
        if option not in known:
            raise _unknown_option(format, option, known)
    if format in TABLE_FORMATS:
        return read_tabular(path, file_format=format, **options)
    if format != "tabular" and not isinstance(path, Path | str):
        raise ConfigError(
            f"{format}: expected one file or folder, got {source_name(path)}; only tables "
            f"(tabular, {', '.join(TABLE_FORMATS)}) are read from several files, standard input or data frames"
        )
    return READERS[format](path, **options)


def _unknown_option(format: str, option: str, known: Sequence[str]) -> ConfigError:
    """The error for an option that the reader does not have; options are spelled as on the command line."""
    if option in FLAGS:
        return ConfigError(
            f"{format}: has no {_flag(option)}; its options are {', '.join(map(_flag, known))}"
        )
    others = ", ".join(one for one in known if one not in (*FLAGS, "columns"))
    near = get_close_matches(option, known, n=1)
    advice = f"; did you mean {_flag(near[0])}?" if near else ""
    return ConfigError(f"{format}: expected --option of {others or 'none'}, got {option!r}{advice}")


def _flag(option: str) -> str:
    if option == "columns":
        return "--column"
    return f"--{option.replace('_', '-')}" if option in FLAGS else f"--option {option}="


def source_name(path: object) -> str:
    """The name of a log in messages."""
    if isinstance(path, Path | str):
        return str(path)
    if is_frame(path):
        return frame_name(path)
    if isinstance(path, Sequence):
        return f"{source_name(path[0])} and {len(path) - 1} more" if len(path) > 1 else source_name(*path)
    return str(getattr(path, "name", "<stream>"))


def options_of(format: str) -> tuple[str, ...]:
    """The options of a reader besides the path."""
    if format not in READERS and format not in TABLE_FORMATS:
        names = f"{', '.join(READERS)}, or a table format ({', '.join(TABLE_FORMATS)})"
        raise ConfigError(f"format: expected one of {names}, got {format!r}")
    options = tuple(inspect.signature(READERS["tabular" if format in TABLE_FORMATS else format]).parameters)[
        1:
    ]
    return tuple(option for option in options if not (option == "file_format" and format in TABLE_FORMATS))
