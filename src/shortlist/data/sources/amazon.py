"""Amazon reviews: JSON lines of 2014, 2018 and 2023, and the ratings-only CSV."""

import re
from pathlib import Path

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import check_columns, header_of, read_delimited
from shortlist.data.tables.files import File, one_file
from shortlist.data.tables.jsonlines import first_object, read_jsonlines
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import to_events
from shortlist.errors import ConfigError, DataError

OLD = {"reviewerID": "id", "asin": "id", "overall": "number", "unixReviewTime": "time"}
NEW = {"user_id": "id", "parent_asin": "id", "rating": "number", "timestamp": "time"}
ASIN = re.compile(r"B[0-9A-Z]{9}|[0-9]{9}[0-9X]")
ORDERS = ("user,item", "item,user")


def read_amazon(path: Path | str, order: str = "", bad_lines: str = "refuse") -> RawEvents:
    """Read reviews as ratings; `order` is `user,item` or `item,user`, for a CSV without header."""
    file = one_file(path)
    if ".csv" in file.path.suffixes:
        found = _from_csv(file, order, bad_lines)
    else:
        kinds = NEW if "user_id" in first_object(file, {}) else OLD
        found = read_jsonlines(file, kinds, bad_lines)
    user, item, rating, time = NEW if "user_id" in found.table.column_names else OLD
    return to_events(found, user=user, item=item, time=time, weight=rating)


def _from_csv(file: File, order: str, bad_lines: str) -> ParsedTable:
    first = header_of(file)
    if "user_id" in first:
        check_columns(file, first, NEW)
        return read_delimited(file, Layout(first, NEW, header=True, quoted=True), bad_lines)
    user, item, rating, time = OLD
    begin = (item, user) if _order(file, first, order) == "item,user" else (user, item)
    return read_delimited(file, Layout((*begin, rating, time), OLD), bad_lines)


def _order(file: File, first: tuple[str, ...], order: str) -> str:
    """The order of the first two fields: the one that matches an ASIN is the item."""
    if order and order not in ORDERS:
        raise ConfigError(f"order: expected {' or '.join(ORDERS)}, got {order!r}")
    is_asin = [bool(ASIN.fullmatch(field)) for field in first[:2]]
    if not order and is_asin not in ([True, False], [False, True]):
        raise DataError(
            f"{file.name}:1: expected one ASIN among {first[:2]}; set order to user,item or item,user"
        )
    return order or ORDERS[int(is_asin[0])]
