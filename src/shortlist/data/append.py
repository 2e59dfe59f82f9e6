"""New events for a data set: rows of known users and items stay, new ids follow at the end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.catalog import Catalog, as_lists, is_list
from shortlist.data.cleaning import duplicates as repeats_of
from shortlist.data.dataset import Dataset, LogFacts, open_dataset, order_ties
from shortlist.data.event_weights import stored_weights, weights_mode
from shortlist.data.interactions import Interactions
from shortlist.data.read import FILES, is_set, read
from shortlist.data.sources import Frame, Source, source_name
from shortlist.data.vocabulary import UNKNOWN, Vocabulary
from shortlist.errors import ConfigError, DataError

DUPLICATES = ("drop", "keep")
COUNTED = ("min_user_events", "min_item_events", "core")  # filters that need all events
ANY_FORMAT = {"weights", "min_weight", "list_separator", "bad_lines"}  # arguments that every format has
MAPPINGS = ("columns", "options")
REPEATED = "already in the data set"
NEW = (
    "is new"  # column that marks the new events until duplicates are dropped; no file's column has this name
)


@dataclass(frozen=True)
class Added:
    """What `append` added to a data set; `repeated` events were already there."""

    events: int
    users: int
    items: int
    repeated: int

    @property
    def sentence(self) -> str:
        nouns = zip((self.events, self.users, self.items), ("event", "new user", "new item"), strict=True)
        events, users, items = (f"{count:,} {noun}{'s' * (count != 1)}" for count, noun in nouns)
        return f"{events} added, {users}, {items}, {self.repeated:,} already there."


def added_by(old: Dataset, new: Dataset) -> Added:
    """What a data set has more than the one it was appended to."""
    sizes = (
        len(new.events) - len(old.events),
        len(new.users) - len(old.users),
        len(new.items) - len(old.items),
    )
    return Added(*sizes, new.facts.dropped.get(REPEATED, 0) - old.facts.dropped.get(REPEATED, 0))


def append(
    data: Dataset | Path | str,
    path: Source | Frame | Sequence[Source],
    format: str | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    items: Source | Frame | None = None,
    users: Source | Frame | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    list_separator: str | None = None,
    bad_lines: str | None = None,
    duplicates: str = "drop",
    strict: bool = False,
) -> Dataset:
    """The data set with the events of another file; the arguments are those of `shortlist data append`.

    What is None is read as the data set was. Known users and items keep their rows, new ones follow. Earlier times are
    allowed. Events that are already there, with the same user, item and time, are dropped and counted, or kept with
    `duplicates="keep"`.
    """
    if duplicates not in DUPLICATES:
        raise ConfigError(f"--duplicates: expected {' or '.join(DUPLICATES)}, got {duplicates!r}")
    dataset = open_dataset(data)
    given: dict[str, Any] = {"user": user, "item": item, "time": time, "weight": weight}
    given |= {"columns": columns, "options": options, "items": items, "users": users}
    given |= {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    given |= {"list_separator": list_separator, "bad_lines": bad_lines}
    # The protocol is that of the data set; with a name `read` does not look for one that fits the new events.
    protocol = str(dataset.split_settings["protocol"])
    settings = _changed(_recorded(dataset, format), given) | {"strict": strict, "split": protocol}
    new = read(path, format or dataset.facts.format, **settings)
    merged = merge_datasets(dataset, new, duplicates == "drop")
    merged = order_ties(merged, dataset.facts.options.get("ties", "file"))
    if strict and (repeated := added_by(dataset, merged).repeated):
        raise DataError(
            f"{source_name(path)}: {repeated:,} events are already in the data set; drop --strict or use "
            "--duplicates keep"
        )
    return merged


def _changed(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded arguments with those that are given; mappings are merged."""
    changes = {name: value for name, value in given.items() if value is not None}
    recorded = _without_absent_tables(recorded, {**(given["options"] or {}), **changes})
    merged = {name: {**recorded.get(name, {}), **changes[name]} for name in MAPPINGS if name in changes}
    return {**recorded, **changes, **merged}


def _without_absent_tables(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded arguments without the columns of tables that are not given again."""
    absent = tuple(f"{name.removesuffix('s')}." for name in FILES if not is_set(given.get(name)))
    kept = {ours: one for ours, one in recorded.get("columns", {}).items() if not ours.startswith(absent)}
    others = {name: value for name, value in recorded.items() if name != "columns"}
    return {**others, "columns": kept} if kept else others


def _recorded(dataset: Dataset, format: str | None) -> Mapping[str, Any]:
    """The arguments the data set was read with."""
    facts = dataset.facts
    read_from_file = facts.format not in ("", "world")
    if format is None and not read_from_file:
        raise ConfigError(
            f"{dataset.name}: was not read from a file; name the format of the new one with --format"
        )
    for name in COUNTED:
        if facts.options.get(name):
            option = f"--{name.replace('_', '-')}"
            raise DataError(
                f"{dataset.name}: was prepared with {option}, and the events it dropped cannot be counted with the new "
                f"ones; prepare all files again (shortlist data prepare), or prepare without {option} and append"
            )
    # Weights of a table are used by default, those of a format are not: the data set decides for new events.
    mode = weights_mode(None, facts.format) if read_from_file else "use"
    recorded = {"weights": mode, **facts.options}
    # Columns and options of one format mean nothing to another.
    return (
        recorded
        if format in (None, facts.format)
        else {name: recorded[name] for name in ANY_FORMAT & {*recorded}}
    )


def merge_datasets(old: Dataset, new: Dataset, drop_duplicates: bool = True) -> Dataset:
    """The events of both; `drop_duplicates` drops new events with the user, item and time of another event.

    Without times, the new events follow the old ones.
    """
    _check_same_kind(old, new)
    _check_weights(old, new)
    users, items = old.users.extended(new.users), old.items.extended(new.items)
    events = _merged_events(old, new, users, items)
    repeated = repeats_of(events) & (events.columns[NEW] != 0)
    repeated &= drop_duplicates and old.clock == "ms"
    kept = events.where(~repeated)
    columns = {name: column for name, column in kept.columns.items() if name != NEW}
    return replace(
        old,
        users=users,
        events=replace(kept, columns=columns),
        catalog=Catalog(items, _merged_table(old.catalog.table, new.catalog.table, new.items, items)),
        user_table=_merged_table(old.user_table, new.user_table, new.users, users),
        rejects=new.rejects,
        facts=_merged_facts(old, new.facts, kept, int(repeated.sum())),
    )


def _check_same_kind(old: Dataset, new: Dataset) -> None:
    has = {"ms": "times", "order": "no times"}
    if old.clock != new.clock:
        raise DataError(
            f"{new.facts.path}: has {has[new.clock]}, and the data set {old.name} has {has[old.clock]}; name the "
            "column of times with --time, or prepare both together"
        )
    if missing := sorted(set(old.events.columns) ^ set(new.events.columns)):
        raise DataError(
            f"{new.facts.path}: expected the event columns of the data set {old.name} "
            f"({', '.join(old.events.columns) or 'none'}), got {', '.join(new.events.columns) or 'none'}; "
            f"map {missing[0]!r} with --column in both, or in neither"
        )


def _check_weights(old: Dataset, new: Dataset) -> None:
    """Refuse weighted events for a data set in which every event counts once because its log had no weights."""
    if old.facts.weights or old.facts.options.get("weight") or not new.facts.weights:
        return
    low, high = float(new.events.weights.min()), float(new.events.weights.max())
    if low != 1 or high != 1:
        raise DataError(
            f"{new.facts.path}: has weights of {low:g} to {high:g}, and the events of the data set {old.name} have "
            "none; prepare all files together (shortlist data prepare), --weights implicit counts each event once"
        )


def _merged_events(old: Dataset, new: Dataset, users: Vocabulary, items: Vocabulary) -> Interactions:
    """Old and new events by (user, time); the column `NEW` marks the new ones. Old ones come first at equal times."""
    before, after = old.events, new.events
    later = int(before.times.max(initial=-1)) + 1 if old.clock == "order" else 0
    columns = {name: np.concatenate([column, after.columns[name]]) for name, column in before.columns.items()}
    marks = np.repeat(np.array([0, 1], np.int8), [len(before), len(after)])
    return Interactions.of(
        np.concatenate([before.users, users.rows_of(new.users)[after.users]]),
        np.concatenate([before.items, items.rows_of(new.items)[after.items]]),
        np.concatenate([before.times, after.times + later]),
        np.concatenate([before.weights, after.weights]),
        len(users),
        len(items),
        {**columns, NEW: marks},
    )


def _merged_table(old: pa.Table, new: pa.Table, new_ids: Vocabulary, ids: Vocabulary) -> pa.Table:
    """One row per id: what is known stays, gaps are filled from the new table."""
    own = np.arange(len(ids)) < old.num_rows
    before = pa.array(np.arange(len(ids)), mask=~own)
    rows = Vocabulary(new_ids.ids.cast(ids.ids.type)).encode(ids.ids)
    after = pa.array(rows, mask=rows == UNKNOWN)
    old, new = old.take(before) if old.num_columns else old, new.take(after) if new.num_columns else new
    names = dict.fromkeys([*old.column_names, *new.column_names])
    return pa.table({name: _merged_column(name, old, new) for name in names})


def _merged_column(name: str, old: pa.Table, new: pa.Table) -> pa.ChunkedArray:
    if name not in old.column_names or name not in new.column_names:
        return (old if name in old.column_names else new)[name]
    known, filled = old[name], new[name]
    if is_list(known.type) != is_list(filled.type):
        known, filled = (one if is_list(one.type) else as_lists(one) for one in (known, filled))
    try:
        return pc.if_else(pc.is_valid(known), known, filled.cast(known.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column {name!r}: is {known.type} in the data set and {filled.type} in the new file, and not all of its "
            "values can be converted; fix the file"
        ) from error


def _merged_facts(old: Dataset, new: LogFacts, kept: Interactions, repeated: int) -> LogFacts:
    """Rows and dropped rows of both, and sentences without the numbers of the old events."""
    facts = old.facts
    name = facts.split_reason.partition(":")[0]  # the protocol
    weights = stored_weights(kept, "use", old.name)[1]  # empty where all are 1, used or not
    return replace(
        facts,
        read=(len(old.events) if facts.read is None else facts.read) + (new.read or 0),
        kept=len(kept),
        dropped=dict(Counter(facts.dropped) + Counter(new.dropped) + Counter({REPEATED: repeated})),
        appended=(*facts.appended, new.path),
        split_reason=f"{name}: it was chosen when the data set was prepared" if name else "",
        weights=weights or facts.weights,
    )
