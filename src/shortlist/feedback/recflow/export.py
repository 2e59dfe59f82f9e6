"""The log in the columns of RecFlow, one feather file per day."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.artifact.staging import MANIFEST, staged
from shortlist.errors import ConfigError
from shortlist.feedback.join import with_label_rows
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import Array, LoggedRequests

DAY_MS = 86_400_000
LEVELS = (1, 2, 3, 4)  # largest S of prerank_neg, coarse_neg, rank_neg and rerank_neg in five stages
TOP = 10  # rank_pos: the best of the rank stage
EFFECTIVE, LONG = 0.3, 1.0  # watched share of the duration
OF_USER = ("device_id", "age", "gender", "province")
OF_ITEM = (
    *("author_id", "category_level_one", "category_level_two", "upload_type", "upload_timestamp"),
    "duration",
)
NEGATIVES = ("prerank_neg", "coarse_neg", "rank_neg", "rerank_neg")  # S = 1, 2, 3, 4
COLUMNS = (
    *("request_id", "request_timestamp", "user_id", *OF_USER, "video_id", *OF_ITEM),
    *("realshow", "rerank_pos", "rerank_neg", "rank_pos", "rank_neg", "coarse_neg", "prerank_neg"),
    *("rank_index", "rerank_index", "playing_time", "effective_view", "long_view"),
    *("like", "follow", "forward", "comment"),
)
LABEL_COLUMNS = ("y_multi", "play_ms", "watch_ratio")


@dataclass(frozen=True)
class Features:
    """Tables about users (column user_id) and items (column item_id) with any of the RecFlow columns."""

    users: pa.Table | None = None
    items: pa.Table | None = None


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    files: tuple[str, ...]
    requests: int
    rows: int
    problems: Problems


def to_recflow(
    root: Path,
    out: Path,
    rule_version: int | None = None,
    levels: Sequence[int] = LEVELS,
    features: Features | None = None,
    force: bool = False,
) -> Exported:
    """Write the log as `all_stage/YYYY-MM-DD.feather`, with the labels of a rule if one is given.

    A pipeline of other than five stages needs `levels`: the largest S of prerank_neg, coarse_neg, rank_neg, rerank_neg.
    Columns that nothing is known about are null.
    """
    reader = LogReader(Path(root))
    requests = rows = 0
    with staged(Path(out), overwrite=force) as folder:
        (folder / "all_stage").mkdir()
        with ExitStack() as files:
            days: dict[str, Any] = {}
            for record, labels, at in _labelled(reader, rule_version):
                table = recflow_table(record, labels, at, levels, features or Features())
                requests, rows = requests + len(record), rows + len(table)
                for day, part in _by_day(table):
                    if day not in days:
                        days[day] = files.enter_context(_day_file(folder, day, part.schema))
                    days[day].write_table(part)
        names = tuple(f"all_stage/{day}.feather" for day in sorted(days))
        facts = {"schema_version": 1, "files": names, "requests": requests, "rows": rows}
        (folder / MANIFEST).write_text(json.dumps(facts), "utf-8")
    return Exported(names, requests, rows, reader.problems)


def recflow_table(
    record: LoggedRequests,
    labels: pa.Table | None = None,
    at: Array | None = None,
    levels: Sequence[int] = LEVELS,
    features: Features | None = None,
) -> pa.Table:
    """The candidates of a record in the columns of RecFlow; row i of `labels` is about candidate at[i]."""
    features, level = features or Features(), _levels(record, levels)
    rank, rerank = (record.ranks[:, stage] for stage in _stages(record, levels))
    users, items = pa.array(np.repeat(record.user_id, record.counts)), pa.array(record.item_id)
    columns: dict[str, Any] = {
        "request_id": np.repeat(record.request_id, record.counts),
        "request_timestamp": np.repeat(record.ts_ms, record.counts),
        "user_id": users,
        "video_id": items,
        **_features(users, features.users, "user_id", OF_USER),
        **_features(items, features.items, "item_id", OF_ITEM),
        **{name: (level == number + 1).astype(np.int8) for number, name in enumerate(NEGATIVES)},
        "rerank_pos": (level == 5).astype(np.int8),
        "rank_pos": ((rank > 0) & (rank <= TOP)).astype(np.int8),
        "rank_index": rank,
        "rerank_index": rerank,
        **_outcomes(record, labels, at),
    }
    return pa.table({name: columns[name] for name in COLUMNS})


def _labelled(
    reader: LogReader, rule_version: int | None
) -> Iterator[tuple[LoggedRequests, pa.Table | None, Array | None]]:
    if rule_version is None:
        yield from ((record, None, None) for record in reader.requests())
    else:
        yield from with_label_rows(reader, rule_version, LABEL_COLUMNS)


def _levels(record: LoggedRequests, levels: Sequence[int]) -> Array:
    """RecFlow's five stages of every candidate [C]: 1 prerank_neg to 5 rerank_pos, 0 if it was never retrieved."""
    stages = np.unique(record.n_stages).tolist()
    if len(levels) != 4 or list(levels) != sorted({*levels}) or any(one <= levels[-1] for one in stages):
        raise ConfigError(
            f"log export: expected four increasing stages below the number of stages, got {list(levels)} for requests "
            f"of {', '.join(map(str, stages))} stages; give the last S of {', '.join(NEGATIVES)}"
        )
    level = np.searchsorted(np.array(levels), record.stage) + 1
    served = record.stage == record.n_stages[record.request]
    return np.where(served, 5, np.where(record.stage == 0, 0, np.minimum(level, 4)))


def _stages(record: LoggedRequests, levels: Sequence[int]) -> tuple[int, int]:
    """Columns of the stages whose ranks are rank_index and rerank_index: those that drop rank_neg and rerank_neg."""
    return min(levels[2], record.depth - 1), min(levels[3], record.depth - 1)


def _features(ids: pa.Array, table: pa.Table | None, key: str, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a table by id; null for an unknown id, and for a column that the table does not have."""
    if table is None:
        return {name: pa.nulls(len(ids), pa.int64()) for name in names}
    known = table[key].combine_chunks()
    if known.type != ids.type:
        ids, known = ids.cast(pa.string()), known.cast(pa.string())
    rows = pc.index_in(ids, value_set=known)
    return {
        name: table[name].take(rows) if name in table.column_names else pa.nulls(len(ids), pa.int64())
        for name in names
    }


def _outcomes(record: LoggedRequests, labels: pa.Table | None, at: Array | None) -> dict[str, Any]:
    """What came back, null where that is not known."""
    size = record.n_candidates
    rows = pa.nulls(size, pa.int64()) if labels is None or at is None else _rows_at(at, size)
    if labels is None:
        return {name: pa.nulls(size, pa.int8()) for name in _FROM_EVENTS} | {
            "playing_time": pa.nulls(size, pa.float32()),
            "realshow": (record.shown == 1).astype(np.int8),
        }
    multi, ratio = labels["y_multi"].combine_chunks(), labels["watch_ratio"]
    known = {name: multi.field(name) for name in ("like", "follow", "forward", "comment")}
    known |= {"effective_view": _at_least(ratio, EFFECTIVE), "long_view": _at_least(ratio, LONG)}
    known |= {"playing_time": labels["play_ms"], "realshow": pc.fill_null(multi.field("impression"), 0)}
    found = {name: values.take(rows) for name, values in known.items()}
    return found | {"realshow": pc.fill_null(found["realshow"], 0)}


_FROM_EVENTS = ("effective_view", "long_view", "like", "follow", "forward", "comment")


def _rows_at(at: Array, size: int) -> pa.Array:
    """For each candidate the row that is about it, null for none."""
    rows = np.full(size, -1, np.int64)
    rows[at] = np.arange(len(at))
    return pa.array(rows, mask=rows < 0)


def _at_least(ratio: Any, share: float) -> Any:
    return pc.greater_equal(ratio, share).cast(pa.int8())


def _by_day(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    days = table["request_timestamp"].to_numpy() // DAY_MS
    for day in np.unique(days).tolist():
        name = datetime.fromtimestamp(day * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")
        yield name, table.filter(pa.array(days == day))


def _day_file(folder: Path, day: str, schema: pa.Schema) -> Any:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    return pa.ipc.new_file(str(folder / "all_stage" / f"{day}.feather"), schema, options=options)
