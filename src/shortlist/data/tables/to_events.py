"""From a parsed table to raw events: ids, times and weights are checked, dropped rows are counted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import Ids, RawEvents, dictionary_ids, one_chunk
from shortlist.data.tables.bad_rows import (
    CONTROL,
    blank,
    count_rejects,
    either,
    filled,
    is_text,
    without_bad_rows,
)
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.times import milliseconds
from shortlist.errors import DataError

Mask = NDArray[np.bool_]

WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # the canonical form of an integer, so text <-> integer is lossless
DECIMAL = (
    r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"  # no leading zeros: 01234 is a code, not a number
)


def to_events(
    found: ParsedTable,
    *,
    user: str,
    item: str,
    time: str | None = None,
    weight: str | None = None,
    unit: str = "auto",
    carry: Mapping[str, str] | None = None,
    dropped: Mapping[str, Mask] | None = None,
) -> RawEvents:
    """Events of a table; `carry` maps our names to further columns, `dropped` maps reasons to masks of rows."""
    if found.skip:
        found, dropped = without_bad_rows(found, (user, item), time, unit, dropped or {})
    users, items = check_ids(found, user), check_ids(found, item)
    times = None if time is None else milliseconds(found.table[time], unit, found.locate)
    weights = None if weight is None else float32_column(found.table[weight])
    reasons = {**(dropped or {}), "empty id": either(blank(users), blank(items))}
    keep, counts = _kept_rows(reasons, len(found))
    columns = {ours: numpy_column(found.table[theirs]) for ours, theirs in (carry or {}).items()}
    return RawEvents(
        compact_ids(_kept(users, keep)),
        compact_ids(_kept(items, keep)),
        _kept(times, keep),
        _kept(weights, keep),
        {name: _kept(column, keep) for name, column in columns.items()},
        read=len(found) + found.bad,
        dropped={**counts, **count_rejects(found.rejects)},
        rejects=found.rejects,
    )


def check_ids(found: ParsedTable, name: str) -> pa.DictionaryArray:
    """A column of ids, dictionary-encoded; control characters and invalid UTF-8 are refused."""
    column = found.table[name]
    if not (pa.types.is_dictionary(column.type) or _is_id(column.type)):
        raise DataError(
            f"{found.name}: expected ids (whole numbers or text) as {name!r}, got {column.type}; cast the column"
        )
    coded = _standard(found, name, dictionary_ids(filled(column)))
    if is_text(coded.dictionary.type):
        _refuse_invalid(found, name, coded)
    return coded


def compact_ids(ids: Ids) -> pa.DictionaryArray:
    """Ids that are all written as integers become integers; the conversion is lossless."""
    coded = dictionary_ids(ids)
    entries = coded.dictionary
    if not is_text(entries.type) or not pc.all(pc.match_substring_regex(entries, WHOLE)).as_py():
        return coded
    return pa.DictionaryArray.from_arrays(coded.indices, pc.cast(entries, pa.int64()))


def float32_column(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """A column of numbers as float32."""
    narrow: NDArray[np.float32] = one_chunk(pc.cast(column, pa.float32(), safe=False)).to_numpy()
    return narrow


def numpy_column(column: pa.ChunkedArray) -> NDArray[Any]:
    """A further column as numpy: numbers if all entries are numbers, else text with shared objects."""
    if not (pa.types.is_dictionary(column.type) or is_text(column.type)):
        values: NDArray[Any] = column.to_numpy()
        return values
    coded = dictionary_ids(filled(column))
    shared: NDArray[Any] = _dictionary_values(coded.dictionary)[np.asarray(coded.indices)]
    return shared


def _dictionary_values(entries: pa.Array) -> NDArray[Any]:
    for pattern, kind in ((WHOLE, pa.int64()), (DECIMAL, pa.float64())):
        if is_text(entries.type) and pc.all(pc.match_substring_regex(entries, pattern)).as_py():
            return np.asarray(pc.cast(entries, kind))
    return np.array(entries.to_pylist(), object)


def attribute_table(
    found: ParsedTable,
    key_name: str,
    key: str,
    columns: Mapping[str, str],
    like: Ids,
    advice: str = "use files of the same data set",
) -> pa.Table:
    """Attributes of the ids in `like`: the column `key_name`, then `columns` (our name -> column of the file).

    A file that describes none of these ids is an error that ends with the advice.
    """
    ids = check_ids(found, key)
    known = pc.cast(like.dictionary, pa.string())
    described = pc.cast(ids.dictionary, pa.string())
    member = pc.is_in(described, value_set=known)
    if len(known) and not pc.any(member, min_count=0).as_py():
        article = "an" if key_name == "item" else "a"
        raise DataError(
            f"{found.name}: none of its {len(described):,} ids {key!r} is {article} {key_name} id of the log; "
            f"ids of the log: {_examples(known)}, ids of the file: {_examples(described)}; {advice}"
        )
    keep = member.take(ids.indices)
    same = pc.cast(pc.cast(ids.dictionary_decode(), pa.string()).filter(keep), like.dictionary.type)
    rest = {ours: found.table[theirs].combine_chunks().filter(keep) for ours, theirs in columns.items()}
    return pa.table({key_name: same, **rest})


def _examples(ids: pa.Array) -> str:
    return ", ".join(repr(one[:40]) for one in ids[:3].to_pylist())


def _standard(found: ParsedTable, name: str, coded: pa.DictionaryArray) -> pa.DictionaryArray:
    """Ids as int64 or string, from any width of integers or text."""
    entries = coded.dictionary
    target = pa.int64() if pa.types.is_integer(entries.type) else pa.string()
    if entries.type == target:
        return coded
    try:
        return pa.DictionaryArray.from_arrays(coded.indices, pc.cast(entries, target))
    except pa.ArrowInvalid as error:
        raise DataError(f"{found.name}: expected ids of 64 bits as {name!r} ({error}); use text") from error


def _refuse_invalid(found: ParsedTable, name: str, coded: pa.DictionaryArray) -> None:
    try:
        coded.dictionary.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(f"{found.name}: expected UTF-8 text as {name!r} ({error}); fix the file") from error
    invalid = pc.match_substring_regex(coded.dictionary, CONTROL)
    if pc.any(invalid, min_count=0).as_py():
        row = int(np.flatnonzero(np.asarray(invalid)[np.asarray(coded.indices)])[0])
        value = coded[row].as_py()
        raise DataError(
            f"{found.locate(row)}: expected an id without control characters as {name!r}, "
            f"got {value[:40]!r}; fix it, or skip such lines with --bad-lines skip"
        )


def _kept_rows(reasons: Mapping[str, Mask | None], count: int) -> tuple[Mask | None, dict[str, int]]:
    """Mask of kept rows (None: all), and the dropped rows by reason; the first reason of a row counts."""
    keep, counts = np.ones(count, bool), {}
    for reason, mask in reasons.items():
        if mask is not None and (matched := int(np.count_nonzero(keep & mask))):
            counts[reason] = matched
            keep &= ~mask
    return (keep if counts else None), counts


def _kept(column: Any, keep: Mask | None) -> Any:
    if column is None or keep is None:
        return column
    return column.filter(pa.array(keep)) if isinstance(column, pa.Array) else column[keep]


def _is_id(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or is_text(kind))
