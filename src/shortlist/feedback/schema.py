"""Arrow schemas of the log, and logged requests as tables and back."""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.artifact.as_json import as_json
from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.record import MISSING, Array, Funnel, LoggedRequests

SCHEMA_VERSION = 1
EVENTS = (
    *("impression", "play", "like", "follow", "forward", "comment", "hide"),
    *("click", "cart", "purchase"),
)  # their places are the numbers of `event`: new ones come last
INT64 = 1 << 63
PROPENSITIES = ("pool_propensity", "slate_propensity")
RANKS, CHANCES = "nominator_rank", "nominator_propensity"  # columns, one for each nominator
LISTS = ("policy_version", "capacities", "n_in", "n_out", "n_filtered")


def requests_table(record: LoggedRequests, context: pa.Array | None = None, text: bool = False) -> pa.Table:
    """One row per request; `text` says whether user ids are text."""
    here = np.arange(record.depth) < record.n_stages[:, None]
    starts = pa.array(np.concatenate([[0], np.cumsum(record.n_stages)]), pa.int32())
    lists = {name: pa.ListArray.from_arrays(starts, pa.array(getattr(record, name)[here])) for name in LISTS}
    names = pa.array([json.dumps(as_json(one)) for one in record.funnels])
    columns = {
        "request_id": pa.array(record.request_id),
        "ts_ms": pa.array(record.ts_ms),
        "user_id": _user_column(record.user_id, text),
        "context": context if context is not None else pa.nulls(len(record)),
        **lists,
        "seed": pa.array(record.seed),
        "exploration_flags": pa.array(record.exploration_flags),
        "log_complete": pa.array(record.complete),
        "n_logged": pa.array(record.counts.astype(np.int32)),
        "funnel": pa.DictionaryArray.from_arrays(pa.array(record.funnel), names),
    }
    return pa.table(columns)


def candidates_table(
    record: LoggedRequests, items: Vocabulary | None = None, score_bits: int = 32
) -> pa.Table:
    """One row per logged candidate; score_i and rank_i are null where stage i did not score it.

    `items` gives the ids where the record holds rows. Arrow takes them without the interpreter lock.
    """
    kind = pa.float16() if score_bits == 16 else pa.float32()
    columns = {
        "request_id": pa.array(np.repeat(record.request_id, record.counts)),
        "item_id": pa.array(record.item_id) if items is None else items.ids.take(pa.array(record.item_id)),
        "S": pa.array(record.stage),
        "channel_mask": pa.array(record.channel_mask),
    }
    for number in range(record.depth):
        scores, ranks = record.scores[:, number], record.ranks[:, number]
        narrow = scores.astype(np.float16) if score_bits == 16 else scores
        columns[f"score_{number + 1}"] = pa.array(narrow, kind, mask=np.isnan(scores))
        columns[f"rank_{number + 1}"] = pa.array(ranks, pa.int32(), mask=ranks == 0)
    columns |= _nominator_columns(record)
    columns |= {
        "position": pa.array(record.position, mask=record.position == 0),
        "shown": pa.array(record.shown == 1, mask=record.shown == MISSING),
        "incl_prob": pa.array(record.incl_prob),
        "reason": pa.array(record.reason),
        "filtered": pa.array(record.filtered),
        **{name: _known(getattr(record, name)) for name in PROPENSITIES},
    }
    return pa.table(columns)


def _nominator_columns(record: LoggedRequests) -> dict[str, pa.Array]:
    """The rank of every candidate in the list of each nominator; probabilities of random nominators."""
    columns = {}
    for number in range(record.nominator_ranks.shape[1]):
        ranks, chance = record.nominator_ranks[:, number], record.nominator_propensity[:, number]
        columns[f"{RANKS}_{number + 1}"] = pa.array(ranks, pa.int32(), mask=ranks == 0)
        columns[f"{CHANCES}_{number + 1}"] = _known(chance)
    return columns


def record_of(requests: pa.Table, candidates: pa.Table, where: str) -> LoggedRequests:
    """Logged requests from rows of both tables that belong together."""
    counts = _numbers(requests["n_logged"], np.int64)
    ids = _numbers(requests["request_id"], np.int64)
    if not np.array_equal(np.repeat(ids, counts), _numbers(candidates["request_id"], np.int64)):
        raise DataError(
            f"{where}: expected the candidates of {len(ids)} requests in the order of the requests, got "
            f"{len(candidates)} rows of other requests; remove this part from the manifest"
        )
    stages = _numbers(pc.list_value_length(requests["n_out"]), np.int64)
    depth = int(max(stages.max(initial=0), _count(candidates.schema, "rank")))
    nominators = _count(candidates.schema, RANKS)
    encoded = requests["funnel"].combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    size = len(candidates)
    return LoggedRequests(
        request_id=ids,
        ts_ms=_numbers(requests["ts_ms"], np.int64),
        user_id=_ids(requests["user_id"]),
        seed=_numbers(requests["seed"], np.int64),
        n_stages=stages,
        **{name: _padded(requests, name, stages, depth) for name in LISTS},
        exploration_flags=_numbers(requests["exploration_flags"], np.int32),
        complete=_numbers(requests["log_complete"], bool),
        funnel=_numbers(encoded.indices, np.int32),
        funnels=tuple(map(_funnel, encoded.dictionary.to_pylist())),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        item_id=_ids(candidates["item_id"]),
        stage=_numbers(candidates["S"], np.int8),
        channel_mask=_numbers(candidates["channel_mask"], np.int64),
        nominator_ranks=_columns(candidates, RANKS, nominators, np.int32, 0),
        nominator_propensity=_columns(candidates, CHANCES, nominators, np.float32, np.nan),
        scores=_columns(candidates, "score", depth, np.float32, np.nan),
        ranks=_columns(candidates, "rank", depth, np.int32, 0),
        position=_filled(candidates["position"], 0, np.int16),
        shown=_filled(candidates["shown"].cast(pa.int8()), MISSING, np.int8),
        incl_prob=_numbers(candidates["incl_prob"], np.float32),
        reason=_numbers(candidates["reason"], np.int8),
        filtered=_numbers(candidates["filtered"], bool),
        **{name: _optional(candidates, name) for name in PROPENSITIES},
        y=np.full(size, MISSING, np.int8),
    )


def _user_column(users: Array, text: bool) -> pa.Array:
    """User ids with null for anonymous requests, and for ids that are not of the column's type."""
    if users.dtype != object:
        return pa.array(users, mask=users == MISSING) if users.dtype.kind in "iu" else pa.array(users)
    return pa.array([as_id(one, text) for one in users.tolist()], pa.string() if text else pa.int64())


def as_id(value: Any, text: bool) -> int | str | None:
    """An id as text or as a whole number, None where that is impossible."""
    if value is None or (text and value == ""):
        return None
    if text:
        return str(value)
    number = int(value) if re.fullmatch(r"-?[0-9]{1,19}", str(value)) else INT64
    return number if -INT64 <= number < INT64 else None


def _funnel(text: str) -> Funnel:
    names = json.loads(text)
    return Funnel(tuple(names["stages"]), tuple(names["nominators"]), tuple(names.get("noise", ())))


def _known(values: Array) -> pa.Array:
    """A column of numbers with null in place of NaN."""
    return pa.array(values, pa.float32(), mask=np.isnan(values))


def _optional(table: pa.Table, name: str) -> Array:
    """A column of numbers with NaN in place of null, also where an older log has no such column."""
    if name not in table.column_names:
        return np.full(len(table), np.nan, np.float32)
    return _filled(table[name].cast(pa.float32()), np.nan, np.float32)


def _count(schema: pa.Schema, name: str) -> int:
    """How many columns NAME_1, NAME_2, .. there are."""
    return sum(one.startswith(f"{name}_") for one in schema.names)


def _numbers(column: Any, kind: Any) -> Array:
    values: Array = (
        column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    )
    return values.astype(kind, copy=False)


def _filled(column: Any, otherwise: Any, kind: Any) -> Array:
    return _numbers(pc.fill_null(column, otherwise), kind)


def _ids(column: Any) -> Array:
    """Ids as int64, or as objects that are text; null is -1 or an empty text."""
    if pa.types.is_integer(column.type):
        return _filled(column, MISSING, np.int64)
    return _numbers(pc.fill_null(column.cast(pa.string()), ""), object)


def _padded(table: pa.Table, name: str, stages: Array, depth: int) -> Array:
    """A list column as [R, T], -1 past the end of a list, and everywhere if an older log has no n_filtered."""
    wide = np.full((len(stages), depth), MISSING, np.int32)
    if name != "n_filtered" or name in table.column_names:
        wide[np.arange(depth) < stages[:, None]] = _numbers(pc.list_flatten(table[name]), np.int32)
    return wide


def _columns(table: pa.Table, name: str, depth: int, kind: Any, otherwise: Any) -> Array:
    """The columns NAME_1 .. NAME_T side by side; one that is not in the file is empty."""
    wide = np.full((len(table), depth), otherwise, kind)
    for number in range(depth):
        if f"{name}_{number + 1}" in table.column_names:
            wide[:, number] = _filled(
                table[f"{name}_{number + 1}"].cast(pa.from_numpy_dtype(kind)), otherwise, kind
            )
    return wide
