"""Taobao's `UserBehavior.csv`: user, item, category, behaviour, unix seconds; no header."""

from pathlib import Path

from shortlist.data.raw import Raw
from shortlist.data.sources.behaviours import read_behaviours
from shortlist.data.sources.files import need, one_file

KNOWN = {"pv": "pv", "cart": "cart", "fav": "fav", "buy": "buy"}


def read_taobao(path: Path | str, behaviours: str = "pv,cart,fav,buy", bad_lines: str = "refuse") -> Raw:
    """Read the file, or the folder or zip that holds it; `behaviours` lists what to keep."""
    path = Path(path)
    inside = path.is_dir() or path.suffix == ".zip"
    file = need(path, ("UserBehavior.csv", "UserBehavior.csv.gz")) if inside else one_file(path)
    return read_behaviours(file, KNOWN, behaviours, bad_lines)
