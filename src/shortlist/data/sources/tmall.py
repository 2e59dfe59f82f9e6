"""Tmall: the IJCAI-15 log (`user_log_format1.csv`, days as MMDD) and the five-field form."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from shortlist.data.raw_events import RawEvents
from shortlist.data.sources.behaviours import read_behaviours, to_shopping_events
from shortlist.data.tables.delimited import check_columns, header_of, read_delimited
from shortlist.data.tables.files import File, one_file, require_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.errors import ConfigError, DataError

KNOWN = {"0": "click", "1": "cart", "2": "buy", "3": "fav"}  # action_type in the IJCAI-15 log
NAMES = {"pv": "click", "click": "click", "cart": "cart", "buy": "buy", "fav": "fav"}
OURS = ("user", "item", "category", "behaviour", "time")
KINDS = {"user_id": "id", "item_id": "id", "cat_id": "text", "action_type": "text", "time_stamp": "integer"}


def read_tmall(
    path: Path | str, behaviours: str = "click,cart,buy,fav", year: str = "2014", bad_lines: str = "refuse"
) -> RawEvents:
    """Read either form; the IJCAI-15 log has only month and day, `year` adds the year."""
    path = Path(path)
    inside = path.is_dir() or path.suffix == ".zip"
    file = require_file(path, ("user_log_format1.csv",)) if inside else one_file(path)
    header = header_of(file)
    if "user_id" not in header:
        return read_behaviours(file, {**KNOWN, **NAMES}, behaviours, bad_lines)
    if not (year.isdecimal() and len(year) == 4):
        raise ConfigError(f"year: expected four digits, got {year!r}")
    found = _dated(_days(file, header, bad_lines), int(year))
    return to_shopping_events(found, KNOWN, behaviours, unit="auto")


def _days(file: File, header: tuple[str, ...], bad_lines: str) -> ParsedTable:
    check_columns(file, header, KINDS)
    found = read_delimited(file, Layout(header, KINDS, header=True), bad_lines)
    return replace(found, table=found.table.select(list(KINDS)).rename_columns(list(OURS)))


def _dated(found: ParsedTable, year: int) -> ParsedTable:
    """Convert MMDD to a date; an impossible date is refused."""
    days = found.table["time"].to_numpy()
    month, day = days // 100, days % 100
    begins = (year - 1970) * 12 + month - 1
    dates = begins.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    same_month = dates.astype("datetime64[M]").astype(np.int64) == begins
    odd = np.flatnonzero(~((month >= 1) & (month <= 12) & (day >= 1) & same_month))
    if len(odd):
        where, value = found.locate(int(odd[0])), days[odd[0]]
        raise DataError(f"{where}: expected a day as MMDD in 'time_stamp', got {value}; fix the line")
    at = found.table.column_names.index("time")
    return replace(found, table=found.table.set_column(at, "time", pa.array(dates.astype("datetime64[ms]"))))
