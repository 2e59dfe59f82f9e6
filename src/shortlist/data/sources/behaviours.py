"""Shopping logs of five fields: user, item, category, behaviour, time."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw import Raw
from shortlist.data.sources.delimited import read_delimited
from shortlist.data.sources.door import Mask, admit, describe
from shortlist.data.sources.files import File
from shortlist.data.sources.found import Found
from shortlist.data.sources.layout import Layout
from shortlist.errors import ConfigError

FIELDS = {"user": "id", "item": "id", "category": "text", "behaviour": "text", "time": "number"}


def read_behaviours(file: File, known: Mapping[str, str], keep: str, bad_lines: str = "refuse") -> Raw:
    """Read a log without header; `known` maps the words of the file to ours, `keep` lists those to keep."""
    found = read_delimited(file, Layout(tuple(FIELDS), FIELDS), bad_lines)
    return with_categories(found, known, keep, unit="s")


def with_categories(found: Found, known: Mapping[str, str], keep: str, unit: str) -> Raw:
    """Events of the kept behaviours; the category of an item is the one on its first line."""
    refused, spoken = unwanted(found.table["behaviour"], known, keep)
    named = replace(found, table=found.table.append_column("spoken", spoken))
    raw = admit(
        named,
        user="user",
        item="item",
        time="time",
        unit=unit,
        carry={"behaviour": "spoken"},
        refused={"behaviour not kept": refused},
    )
    return replace(raw, described=describe(found, "item", "item", {"category": "category"}, raw.items))


def unwanted(column: pa.ChunkedArray, known: Mapping[str, str], keep: str) -> tuple[Mask, pa.Array]:
    """Which rows have a behaviour that is not kept (or not known), and every behaviour in our words."""
    wanted = [word.strip() for word in keep.split(",") if word.strip()]
    if not wanted or not set(wanted) <= set(known.values()):
        raise ConfigError(f"behaviours: expected some of {', '.join(known.values())}, got {keep!r}")
    at = pc.index_in(column, value_set=pa.array(list(known), pa.string())).combine_chunks()
    spoken = pa.array(list(known.values()), pa.string()).take(at)
    refused: NDArray[np.bool_] = ~np.asarray(pc.is_in(spoken, value_set=pa.array(wanted, pa.string())))
    return refused, spoken
