"""Shopping logs of five fields: user, item, category, behaviour, time."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import Mask, attribute_table, to_events
from shortlist.errors import ConfigError

FIELDS = {"user": "id", "item": "id", "category": "text", "behaviour": "text", "time": "number"}


def read_behaviours(file: File, known: Mapping[str, str], keep: str, bad_lines: str = "refuse") -> RawEvents:
    """Read a log without header; `known` maps the names in the file to ours, `keep` lists those to keep."""
    found = read_delimited(file, Layout(tuple(FIELDS), FIELDS), bad_lines)
    return to_shopping_events(found, known, keep, unit="s")


def to_shopping_events(found: ParsedTable, known: Mapping[str, str], keep: str, unit: str) -> RawEvents:
    """Events of the kept behaviours; the first line of an item gives its category."""
    dropped, names = behaviour_mask(found.table["behaviour"], known, keep)
    named = replace(found, table=found.table.append_column("name", names))
    raw = to_events(
        named,
        user="user",
        item="item",
        time="time",
        unit=unit,
        carry={"behaviour": "name"},
        dropped={"behaviour not kept": dropped},
    )
    return replace(
        raw, item_table=attribute_table(found, "item", "item", {"category": "category"}, raw.items)
    )


def behaviour_mask(column: pa.ChunkedArray, known: Mapping[str, str], keep: str) -> tuple[Mask, pa.Array]:
    """Mask of rows whose behaviour is unknown or not kept, and the behaviours under our names."""
    kept = [word.strip() for word in keep.split(",") if word.strip()]
    if not kept or not set(kept) <= set(known.values()):
        raise ConfigError(f"behaviours: expected some of {', '.join(known.values())}, got {keep!r}")
    at = pc.index_in(column, value_set=pa.array(list(known), pa.string())).combine_chunks()
    names = pa.array(list(known.values()), pa.string()).take(at)
    dropped: NDArray[np.bool_] = ~np.asarray(pc.is_in(names, value_set=pa.array(kept, pa.string())))
    return dropped, names
