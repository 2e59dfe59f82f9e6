"""The CSV of JODIE: user, item, time, label of the state, then features."""

from pathlib import Path

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import File, one_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.lines import records
from shortlist.data.tables.to_events import to_events
from shortlist.errors import ConfigError, DataError

FIELDS = {"user_id": "id", "item_id": "id", "timestamp": "number", "state_label": "number"}


def read_jodie(path: Path | str, features: bool | str = False, bad_lines: str = "refuse") -> RawEvents:
    """Read events with their state label; with `features`, also the columns feature_0, feature_1, ..."""
    file = one_file(path)
    extra = tuple(f"feature_{at}" for at in range(_width(file) - len(FIELDS)))
    if str(features).lower() not in ("true", "false"):
        raise ConfigError(f"features: expected true or false, got {features!r}")
    chosen = extra if str(features).lower() == "true" else ()
    kinds = {**FIELDS, **dict.fromkeys(chosen, "number")}
    found = read_delimited(file, Layout((*FIELDS, *extra), kinds, header=True), bad_lines)
    carry = {"state_label": "state_label", **{name: name for name in chosen}}
    return to_events(found, user="user_id", item="item_id", time="timestamp", unit="s", carry=carry)


def _width(file: File) -> int:
    """Number of fields of the first row; the header has one name for all features."""
    first = next(records(file, Layout(tuple(FIELDS), {}, header=True)), None)
    if first is None:
        raise DataError(f"{file.name}:2: expected at least one row of events, got none; add events")
    return max(len(first.fields), len(FIELDS))
