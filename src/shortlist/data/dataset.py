"""A prepared data set: vocabularies, events and catalog in one folder of Parquet files with a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.artifact.as_json import as_json
from shortlist.artifact.store import Artifact, Lineage, Part, load, save
from shortlist.data.catalog import LIST_SEPARATOR, Catalog, split_texts
from shortlist.data.interactions import Interactions
from shortlist.data.raw_events import REJECTS, RawEvents, Reject, encode_ids, rejects_csv
from shortlist.data.split import Split, SplitSettings, split
from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import ConfigError, DataError

KIND = "dataset"
TIES = ("file", "hash")  # order of a user's events of the same time


@dataclass(frozen=True)
class LogFacts:
    """Where a log came from, and how many of its rows were kept."""

    format: str = ""  # name of the reader; "world" for a simulated log
    path: str = ""  # file name without its folder
    read: int | None = None  # rows read
    kept: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)  # rows by reason
    settings: Mapping[str, float] = field(default_factory=dict)  # of the world that simulated the log
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # of `read`, for `append`; without files and defaults
    appended: tuple[str, ...] = ()  # names of the files that were appended, oldest first
    split_reason: str = ""  # why `--split auto` chose the protocol
    weights: str = ""  # how the weights of the log are used; empty: all are 1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Events, vocabularies and metadata of a log.

    The split settings are part of it, so that every user of the folder gets the same split.
    """

    name: str
    users: Vocabulary
    events: Interactions
    catalog: Catalog
    user_table: pa.Table = field(default_factory=lambda: pa.table({}))  # row i describes user i
    clock: str = "ms"  # "ms" since 1970, or "order" if the log has no times
    split_settings: SplitSettings = field(default_factory=lambda: {"protocol": "half-history"})
    facts: LogFacts = field(default_factory=LogFacts)
    rejects: tuple[Reject, ...] = ()  # the lines that `--bad-lines skip` skipped; not read back from a folder

    @property
    def items(self) -> Vocabulary:
        return self.catalog.vocabulary

    @property
    def fingerprint(self) -> str:
        """A hash of events and vocabularies."""
        return f"{self.events.fingerprint}-{self.users.fingerprint}-{self.items.fingerprint}"

    def split(self, **changes: Any) -> Split:
        """The split of this data set, or one with another protocol or other settings."""
        protocol = changes.get("protocol", self.split_settings.get("protocol"))
        base = self.split_settings if protocol == self.split_settings.get("protocol") else {}
        return split(self.events, **{**base, **changes})


def order_ties(dataset: Dataset, ties: str) -> Dataset:
    """Events of one user and time in the order of the file ("file"), or of a hash of user and item id ("hash").

    The order of a file may say something that times do not: files sorted by item, or in the order of a catalogue page.
    """
    check_ties(ties)
    events = dataset.events
    same = (events.users[1:] == events.users[:-1]) & (events.times[1:] == events.times[:-1])
    if ties == "file" or not same.any():
        return dataset
    order = np.lexsort((_hashes(dataset, same), events.times, events.users))
    columns = {name: column[order] for name, column in events.columns.items()}
    items, weights = events.items[order], events.weights[order]  # users and times stay where they are
    sizes = (events.n_users, events.n_items)
    return replace(
        dataset, events=Interactions.of(events.users, items, events.times, weights, *sizes, columns)
    )


def check_ties(ties: str) -> None:
    """Raise an error if no order of ties has this name."""
    if ties not in TIES:
        raise ConfigError(f"--ties: expected one of {', '.join(TIES)}, got {ties!r}")


def _hashes(dataset: Dataset, same: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A hash of user and item id of each event that shares its time with one beside it, 0 for others [E]."""
    users, items, events = dataset.users.ids.to_pylist(), dataset.items.ids.to_pylist(), dataset.events
    hashes = np.zeros(len(events), np.uint64)
    for at in np.flatnonzero(np.append(same, False) | np.append(False, same)).tolist():
        pair = f"{users[events.users[at]]}\0{items[events.items[at]]}".encode()
        hashes[at] = int.from_bytes(blake2b(pair, digest_size=8).digest(), "big")
    return hashes


def build_dataset(
    raw: RawEvents, name: str = "data", list_separator: str = LIST_SEPARATOR, **rest: Any
) -> Dataset:
    """Replace ids by rows; items that are described but have no event are left out.

    Texts of the item table in which `list_separator` occurs become lists; '' splits nothing.
    """
    columns: list[Any] = [raw.users, raw.items, raw.times, raw.weights]
    item_table, user_table, further = raw.item_table, raw.user_table, raw.columns
    clock = "order" if raw.times is None else "ms"
    del raw  # frees each column that has no other reference as soon as its next form exists
    users, items = _encode(columns, 0), _encode(columns, 1)
    events = Interactions.of(
        columns.pop(0), columns.pop(0), columns.pop(0), columns.pop(0), len(users), len(items), further
    )
    pa.default_memory_pool().release_unused()  # memory of the unsorted columns
    return Dataset(
        name,
        users,
        events,
        Catalog(items, split_texts(_aligned(item_table, "item", items), list_separator)),
        _aligned(user_table, "user", users),
        clock=clock,
        **rest,
    )


def _encode(columns: list[Any], at: int) -> Vocabulary:
    """The vocabulary of the ids in columns[at], which are replaced by rows."""
    vocabulary, columns[at] = encode_ids(columns[at])
    pa.default_memory_pool().release_unused()
    return vocabulary


def _aligned(table: pa.Table | None, key: str, vocabulary: Vocabulary) -> pa.Table:
    """A table whose row i describes row i of the vocabulary, null where nothing is known."""
    if table is None:
        return pa.table({})
    ids = pc.cast(table[key], vocabulary.ids.type)
    at = pc.index_in(vocabulary.ids, value_set=ids.combine_chunks())
    return table.drop_columns([key]).take(at)


def save_dataset(
    dataset: Dataset,
    folder: Path | str,
    package: str,
    extra: Mapping[str, Part] | None = None,
    overwrite: bool = False,
) -> Artifact:
    """Write `events.parquet`, `items.parquet`, `users.parquet`, the files of `extra`, and the manifest."""
    about = {
        "name": dataset.name,
        "clock": dataset.clock,
        "split": dict(dataset.split_settings),
        "facts": as_json(dataset.facts),
        "fingerprint": dataset.fingerprint,
    }
    parts: dict[str, Part] = {
        "events.parquet": _events_table(dataset.events),
        "items.parquet": _with_ids(dataset.items, dataset.catalog.table, "item"),
        "users.parquet": _with_ids(dataset.users, dataset.user_table, "user"),
        **({REJECTS: rejects_csv(dataset.rejects)} if dataset.rejects else {}),
        **(extra or {}),
    }
    return save(folder, KIND, parts, Lineage(package=package), about, overwrite)


def load_dataset(folder: Path | str) -> Dataset:
    """Read a prepared folder after verifying the hash of every file."""
    artifact = load(folder, KIND)
    users, user_table = _without_ids(artifact.table("users.parquet"), "user")
    items, item_table = _without_ids(artifact.table("items.parquet"), "item")
    events = _events(artifact.table("events.parquet"), len(users), len(items))
    about = artifact.about
    dataset = Dataset(
        about["name"],
        users,
        events,
        Catalog(items, item_table),
        user_table,
        about["clock"],
        about["split"],
        _facts(about["facts"]),
    )
    if dataset.fingerprint != about["fingerprint"]:
        raise DataError(
            f"{folder}: its events do not match the fingerprint in its manifest; prepare it again"
        )
    return dataset


def _facts(stored: Mapping[str, Any]) -> LogFacts:
    return LogFacts(**{**stored, "appended": tuple(stored.get("appended", ()))})


def open_dataset(data: Dataset | Path | str) -> Dataset:
    """The data set itself, or the one in a folder."""
    return data if isinstance(data, Dataset) else load_dataset(data)


def _events_table(events: Interactions) -> pa.Table:
    named = {"user": events.users, "item": events.items, "time": events.times, "weight": events.weights}
    return pa.table({**named, **dict(events.columns)})


def _events(table: pa.Table, n_users: int, n_items: int) -> Interactions:
    columns = {name: table[name].to_numpy() for name in table.column_names}
    users, items, times, weights = (columns.pop(name) for name in ("user", "item", "time", "weight"))
    return Interactions.of(users, items, times, weights, n_users, n_items, columns)


def _with_ids(vocabulary: Vocabulary, table: pa.Table, key: str) -> pa.Table:
    if not table.num_columns:
        return pa.table({key: vocabulary.ids})
    return table.add_column(0, key, vocabulary.ids)


def _without_ids(table: pa.Table, key: str) -> tuple[Vocabulary, pa.Table]:
    ids = table[key].combine_chunks()
    rest = table.drop_columns([key])
    return Vocabulary(ids), rest if rest.num_columns else pa.table({})
