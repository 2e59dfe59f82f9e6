"""KuaiRec: watch ratios of users and videos (`big_matrix.csv`, `small_matrix.csv`)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.catalog import as_lists
from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import check_columns, header_of, read_delimited
from shortlist.data.tables.files import File, find_file, require_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import attribute_table, to_events
from shortlist.errors import ConfigError

EVENTS = {"user_id": "integer", "video_id": "integer", "timestamp": "number?", "watch_ratio": "number"}
CATEGORIES = {"video_id": "integer", "feat": "text"}


def read_kuairec(path: Path | str, matrix: str = "big", bad_lines: str = "refuse") -> RawEvents:
    """Read the big or the small matrix; the weight is the watch ratio; rows without a time are dropped."""
    if matrix not in ("big", "small"):
        raise ConfigError(f"matrix: expected big or small, got {matrix!r}")
    found = _read(_matrix(path, matrix), EVENTS, bad_lines)
    timeless = np.asarray(pc.is_null(found.table["timestamp"]))
    filled = pc.fill_null(found.table["timestamp"], pc.max(found.table["timestamp"]).as_py() or 0.0)
    found = replace(found, table=found.table.set_column(2, "timestamp", filled))
    raw = to_events(
        found,
        user="user_id",
        item="video_id",
        time="timestamp",
        weight="watch_ratio",
        unit="s",
        dropped={"no time": timeless},
    )
    return replace(raw, item_table=_item_table(path, raw))


def _matrix(path: Path | str, matrix: str) -> File:
    path = Path(path)
    given = path.name if path.is_file() and path.suffix == ".csv" else f"{matrix}_matrix.csv"
    return require_file(path, (given,))


def _read(file: File, kinds: dict[str, str], bad_lines: str) -> ParsedTable:
    header = header_of(file)
    check_columns(file, header, kinds)
    return read_delimited(file, Layout(header, kinds, header=True, quoted=True), bad_lines)


def _item_table(path: Path | str, raw: RawEvents) -> pa.Table | None:
    """`feat` lists the tags of a video, as in "[27, 9]"; they are its categories."""
    file = find_file(path, "item_categories.csv")
    if file is None:
        return None
    found = _read(file, CATEGORIES, "refuse")
    tags = pc.replace_substring_regex(found.table["feat"], r"[\[\]\s]", "")
    table = found.table.append_column("tags", as_lists(tags, ","))
    return attribute_table(replace(found, table=table), "item", "video_id", {"category": "tags"}, raw.items)
