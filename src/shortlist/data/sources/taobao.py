"""Taobao's `UserBehavior.csv`: user, item, category, behaviour, unix seconds; no header."""

from pathlib import Path

from shortlist.data.raw_events import RawEvents
from shortlist.data.sources.behaviours import read_behaviours
from shortlist.data.tables.files import one_file, require_file

KNOWN = {"pv": "pv", "cart": "cart", "fav": "fav", "buy": "buy"}


def read_taobao(
    path: Path | str, behaviours: str = "pv,cart,fav,buy", bad_lines: str = "refuse"
) -> RawEvents:
    """Read the file, or the folder or zip that contains it; `behaviours` lists those to keep."""
    path = Path(path)
    inside = path.is_dir() or path.suffix == ".zip"
    file = require_file(path, ("UserBehavior.csv", "UserBehavior.csv.gz")) if inside else one_file(path)
    return read_behaviours(file, KNOWN, behaviours, bad_lines)
