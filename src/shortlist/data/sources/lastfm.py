"""Last.fm 1K: who listened to what, when (user, ISO time, artist id and name, track id and name)."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.raw import Raw
from shortlist.data.sources.delimited import read_delimited
from shortlist.data.sources.door import admit, describe
from shortlist.data.sources.files import need, one_file
from shortlist.data.sources.found import Found
from shortlist.data.sources.layout import Layout
from shortlist.errors import ConfigError

FILE = "userid-timestamp-artid-artname-traid-traname.tsv"
KINDS = {"user": "id", "time": "time", "artid": "text", "artname": "text", "traid": "text", "traname": "text"}
COLUMNS = {"artist": ("artid", "artname"), "track": ("traid", "traname")}


def read_lastfm(path: Path | str, item: str = "artist", bad_lines: str = "refuse") -> Raw:
    """Read listens of artists or tracks; what has no id goes by its name."""
    if item not in COLUMNS:
        raise ConfigError(f"item: expected artist or track, got {item!r}")
    path = Path(path)
    file = need(path, (FILE,)) if path.is_dir() or path.suffix == ".zip" else one_file(path)
    found = _named(read_delimited(file, Layout(tuple(KINDS), KINDS, "\t"), bad_lines), *COLUMNS[item])
    raw = admit(found, user="user", item="item", time="time")
    return replace(
        raw, described=describe(found, "item", "item", {"title": "title", "artist": "artname"}, raw.items)
    )


def _named(found: Found, ids: str, names: str) -> Found:
    table = found.table
    item = pc.if_else(pc.equal(table[ids], ""), table[names], table[ids])
    columns = {"user": table["user"], "time": table["time"], "item": item, "title": table[names]}
    return replace(found, table=pa.table({**columns, "artname": table["artname"]}))
