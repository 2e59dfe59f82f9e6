"""The door: ids, times and weights are checked here, and every row that stays out is counted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw import Ids, Raw, compact, whole
from shortlist.data.sources.found import Found
from shortlist.data.sources.times import milliseconds
from shortlist.errors import DataError

Mask = NDArray[np.bool_]

CONTROL = r"[\x00-\x1f\x7f]"
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # the one way to write an integer, so that text <-> integer loses nothing
DECIMAL = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def admit(
    found: Found,
    *,
    user: str,
    item: str,
    time: str | None = None,
    weight: str | None = None,
    unit: str = "auto",
    carry: Mapping[str, str] | None = None,
    refused: Mapping[str, Mask] | None = None,
) -> Raw:
    """Turn a table into events; `carry` maps our names to further columns, `refused` a reason to its rows."""
    users, items = checked(found, user), checked(found, item)
    times = None if time is None else milliseconds(found.table[time], unit, found.where)
    weights = None if weight is None else numbers(found.table[weight])
    reasons = {**(refused or {}), "empty id": _either(_blank(users), _blank(items))}
    keep, dropped = _sentenced(reasons, len(found))
    columns = {ours: plain_column(found.table[theirs]) for ours, theirs in (carry or {}).items()}
    return Raw(
        settled(_kept(users, keep)),
        settled(_kept(items, keep)),
        _kept(times, keep),
        _kept(weights, keep),
        {name: _kept(column, keep) for name, column in columns.items()},
        read=len(found) + found.bad,
        dropped={**dropped, **({"unparsable line": found.bad} if found.bad else {})},
    )


def checked(found: Found, name: str) -> pa.DictionaryArray:
    """A column of ids, dictionary-encoded, without control characters and in valid UTF-8."""
    column = found.table[name]
    if not (pa.types.is_dictionary(column.type) or _is_id(column.type)):
        raise DataError(f"{found.name}: expected ids (whole numbers or text) as {name!r}, got {column.type}")
    coded = _standard(found, name, compact(_filled(column)))
    if _is_text(coded.dictionary.type):
        _refuse_strange(found, name, coded)
    return coded


def settled(ids: Ids) -> pa.DictionaryArray:
    """Ids that are all written like integers become integers; the way back to the text stays unique."""
    coded = compact(ids)
    words = coded.dictionary
    if not _is_text(words.type) or not pc.all(pc.match_substring_regex(words, WHOLE)).as_py():
        return coded
    return pa.DictionaryArray.from_arrays(coded.indices, pc.cast(words, pa.int64()))


def numbers(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """A column of numbers as float32."""
    narrow: NDArray[np.float32] = whole(pc.cast(column, pa.float32(), safe=False)).to_numpy()
    return narrow


def plain_column(column: pa.ChunkedArray) -> NDArray[Any]:
    """A further column as numpy: numbers where all entries are, else texts that share equal objects."""
    if not (pa.types.is_dictionary(column.type) or _is_text(column.type)):
        values: NDArray[Any] = column.to_numpy()
        return values
    coded = compact(_filled(column))
    shared: NDArray[Any] = _plain_words(coded.dictionary)[np.asarray(coded.indices)]
    return shared


def _plain_words(words: pa.Array) -> NDArray[Any]:
    for pattern, kind in ((WHOLE, pa.int64()), (DECIMAL, pa.float64())):
        if _is_text(words.type) and pc.all(pc.match_substring_regex(words, pattern)).as_py():
            return np.asarray(pc.cast(words, kind))
    return np.array(words.to_pylist(), object)


def describe(found: Found, called: str, key: str, columns: Mapping[str, str], like: Ids) -> pa.Table:
    """What a table tells of the ids in `like`: first the column `called`, then `columns` (ours -> theirs)."""
    ids = checked(found, key)
    known = pc.cast(like.dictionary, pa.string())
    mine = pc.is_in(pc.cast(ids.dictionary, pa.string()), value_set=known)
    keep = mine.take(ids.indices)
    same = pc.cast(pc.cast(ids.dictionary_decode(), pa.string()).filter(keep), like.dictionary.type)
    rest = {ours: found.table[theirs].combine_chunks().filter(keep) for ours, theirs in columns.items()}
    return pa.table({called: same, **rest})


def _filled(column: Ids) -> Ids:
    """Gaps become empty text, so that they are counted as empty ids."""
    if not column.null_count:
        return column
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.cast(plain, pa.string()), "")


def _standard(found: Found, name: str, coded: pa.DictionaryArray) -> pa.DictionaryArray:
    """Ids as int64 or string, whatever width the file had."""
    words = coded.dictionary
    wanted = pa.int64() if pa.types.is_integer(words.type) else pa.string()
    if words.type == wanted:
        return coded
    try:
        return pa.DictionaryArray.from_arrays(coded.indices, pc.cast(words, wanted))
    except pa.ArrowInvalid as error:
        raise DataError(f"{found.name}: expected ids of 64 bits as {name!r} ({error}); use text") from error


def _refuse_strange(found: Found, name: str, coded: pa.DictionaryArray) -> None:
    try:
        coded.dictionary.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(f"{found.name}: expected UTF-8 text as {name!r} ({error}); mend the file") from error
    strange = pc.match_substring_regex(coded.dictionary, CONTROL)
    if pc.any(strange, min_count=0).as_py():
        row = int(np.flatnonzero(np.asarray(strange)[np.asarray(coded.indices)])[0])
        word = coded[row].as_py()
        raise DataError(
            f"{found.where(row)}: expected an id without control characters as {name!r}, "
            f"got {word[:40]!r}; mend it"
        )


def _blank(ids: pa.DictionaryArray) -> Mask | None:
    if not _is_text(ids.dictionary.type):
        return None
    blank = np.asarray(pc.equal(pc.utf8_trim_whitespace(ids.dictionary), ""))
    return blank[np.asarray(ids.indices)] if blank.any() else None


def _either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _sentenced(reasons: Mapping[str, Mask | None], count: int) -> tuple[Mask | None, dict[str, int]]:
    """Which rows stay (None: all) and how many each reason takes; the first reason to name a row has it."""
    keep, dropped = np.ones(count, bool), {}
    for reason, refused in reasons.items():
        if refused is not None and (taken := int(np.count_nonzero(keep & refused))):
            dropped[reason] = taken
            keep &= ~refused
    return (keep if dropped else None), dropped


def _kept(column: Any, keep: Mask | None) -> Any:
    if column is None or keep is None:
        return column
    return column.filter(pa.array(keep)) if isinstance(column, pa.Array) else column[keep]


def _is_id(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or _is_text(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
