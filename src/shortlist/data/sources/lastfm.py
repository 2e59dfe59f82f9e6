"""Last.fm 1K: listening events (user, ISO time, artist id and name, track id and name)."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import one_file, require_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import attribute_table, to_events
from shortlist.errors import ConfigError

FILE = "userid-timestamp-artid-artname-traid-traname.tsv"
KINDS = {"user": "id", "time": "time", "artid": "text", "artname": "text", "traid": "text", "traname": "text"}
COLUMNS = {"artist": ("artid", "artname"), "track": ("traid", "traname")}


def read_lastfm(path: Path | str, item: str = "artist", bad_lines: str = "refuse") -> RawEvents:
    """Read listening events with artists or tracks as items; an item without id is identified by its name."""
    if item not in COLUMNS:
        raise ConfigError(f"item: expected artist or track, got {item!r}")
    path = Path(path)
    file = require_file(path, (FILE,)) if path.is_dir() or path.suffix == ".zip" else one_file(path)
    found = _with_items(read_delimited(file, Layout(tuple(KINDS), KINDS, "\t"), bad_lines), *COLUMNS[item])
    raw = to_events(found, user="user", item="item", time="time")
    return replace(
        raw,
        item_table=attribute_table(found, "item", "item", {"title": "title", "artist": "artname"}, raw.items),
    )


def _with_items(found: ParsedTable, ids: str, names: str) -> ParsedTable:
    table = found.table
    item = pc.if_else(pc.equal(table[ids], ""), table[names], table[ids])
    columns = {"user": table["user"], "time": table["time"], "item": item, "title": table[names]}
    return replace(found, table=pa.table({**columns, "artname": table["artname"]}))
