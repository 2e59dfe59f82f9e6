"""Rows that can be parsed and not used: empty ids, control characters, times far from the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import Ids, Reject, dictionary_ids
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.times import odd_times

Mask = NDArray[np.bool_]

CONTROL = r"[\x00-\x1f\x7f]"
EMPTY, CONTROLS, FAR = "empty id", "control character in an id", "time far from the others"
UNPARSABLE = "unparsable line"


def without_bad_rows(
    found: ParsedTable, ids: Sequence[str], time: str | None, unit: str, dropped: Mapping[str, Mask]
) -> tuple[ParsedTable, Mapping[str, Mask]]:
    """The table without its bad rows, which become rejects; `dropped` are masks of rows that are left out anyway."""
    coded = [dictionary_ids(filled(found.table[name])) for name in ids]
    reasons = {
        EMPTY: either(*map(blank, coded)),
        CONTROLS: either(*map(_with_control, coded)),
        FAR: None if time is None else odd_times(found.table[time], unit),
    }
    why = np.full(len(found), "", object)
    for reason, mask in reversed(reasons.items()):
        why[slice(0, 0) if mask is None else mask] = reason
    why[np.logical_or.reduce([np.zeros(len(found), bool), *dropped.values()])] = ""
    bad = np.flatnonzero(why != "")
    cleaned = without_rows(found, dict(zip(bad.tolist(), why[bad].tolist(), strict=True)))
    return cleaned, {name: np.delete(mask, bad) for name, mask in dropped.items()}


def without_rows(found: ParsedTable, why: Mapping[int, str]) -> ParsedTable:
    """The table without the rows of `why` (row -> reason), which become rejects."""
    if not why:
        return found
    bad = sorted(why)
    rejects = [
        Reject(at.file, at.line, why[row], at.text) for row, at in zip(bad, found.places(bad), strict=True)
    ]
    kept = np.delete(np.arange(len(found)), bad)
    return replace(
        found,
        table=found.table.take(pa.array(kept)),
        places=lambda rows: found.places([int(kept[row]) for row in rows]),
        rejects=(*found.rejects, *rejects),
    )


def count_rejects(rejects: Sequence[Reject]) -> dict[str, int]:
    """The skipped rows by reason; all lines that cannot be parsed are one reason."""
    known = (EMPTY, CONTROLS, FAR)
    return dict(Counter(one.reason if one.reason in known else UNPARSABLE for one in rejects))


def blank(ids: pa.DictionaryArray) -> Mask | None:
    """The rows with an empty id; None if there are none."""
    if not is_text(ids.dictionary.type):
        return None
    return _rows(ids, pc.equal(pc.utf8_trim_whitespace(ids.dictionary), ""))


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """The rows in either mask."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def filled(column: Ids) -> Ids:
    """Nulls become empty text and are counted as empty ids."""
    if not column.null_count:
        return column
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.cast(plain, pa.string()), "")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _with_control(ids: pa.DictionaryArray) -> Mask | None:
    return (
        _rows(ids, pc.match_substring_regex(ids.dictionary, CONTROL))
        if is_text(ids.dictionary.type)
        else None
    )


def _rows(ids: pa.DictionaryArray, entries: pa.BooleanArray) -> Mask | None:
    flags = np.asarray(entries)
    return flags[np.asarray(ids.indices)] if flags.any() else None
