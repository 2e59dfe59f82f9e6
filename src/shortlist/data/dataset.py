"""A prepared data set: vocabularies, events and catalogue in one folder of Parquet with a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.artifact.store import Artifact, Lineage, Part, load, save
from shortlist.data.catalog import Catalog
from shortlist.data.interactions import Interactions
from shortlist.data.raw import Raw, encode
from shortlist.data.split import Split, split
from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import DataError

KIND = "dataset"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Everything known of a log. `split` settings belong to it, so that all who use the folder split alike."""

    name: str
    users: Vocabulary
    events: Interactions
    catalog: Catalog
    people: pa.Table = field(default_factory=lambda: pa.table({}))
    clock: str = "ms"  # "ms" since 1970, or "order" where the source knows only the order
    split_settings: Mapping[str, Any] = field(default_factory=lambda: {"protocol": "half-history"})
    facts: Mapping[str, Any] = field(default_factory=dict)  # rows read, dropped and why, the source's options

    @property
    def items(self) -> Vocabulary:
        return self.catalog.vocabulary

    @property
    def fingerprint(self) -> str:
        """A hash of events and vocabularies."""
        return f"{self.events.fingerprint}-{self.users.fingerprint}-{self.items.fingerprint}"

    def split(self, **changes: Any) -> Split:
        """The split of this data set, or another protocol or other settings."""
        protocol = changes.get("protocol", self.split_settings.get("protocol"))
        base = self.split_settings if protocol == self.split_settings.get("protocol") else {}
        return split(self.events, **{**base, **changes})


def from_raw(raw: Raw, name: str = "data", **rest: Any) -> Dataset:
    """Turn outside ids into rows; items that are only described and never met are left out."""
    columns: list[Any] = [raw.users, raw.items, raw.times, raw.weights]
    described, people, further = raw.described, raw.people, raw.columns
    clock = "order" if raw.times is None else "ms"
    del raw  # so that a column nobody else holds is freed as soon as the next form of it is there
    users, items = _encoded(columns, 0), _encoded(columns, 1)
    events = Interactions.of(
        columns.pop(0), columns.pop(0), columns.pop(0), columns.pop(0), len(users), len(items), further
    )
    pa.default_memory_pool().release_unused()  # what the columns lay in before they were sorted
    return Dataset(
        name,
        users,
        events,
        Catalog(items, _aligned(described, "item", items)),
        _aligned(people, "user", users),
        clock=clock,
        **rest,
    )


def _encoded(columns: list[Any], place: int) -> Vocabulary:
    """The vocabulary of a column of outside ids, in whose place its rows are left."""
    vocabulary, columns[place] = encode(columns[place])
    pa.default_memory_pool().release_unused()
    return vocabulary


def _aligned(table: pa.Table | None, key: str, vocabulary: Vocabulary) -> pa.Table:
    """A table whose row i describes row i of the vocabulary, empty where nothing is known."""
    if table is None:
        return pa.table({})
    ids = pc.cast(table[key], vocabulary.ids.type)
    where = pc.index_in(vocabulary.ids, value_set=ids.combine_chunks())
    return table.drop_columns([key]).take(where)


def save_dataset(
    dataset: Dataset,
    folder: Path | str,
    package: str,
    extra: Mapping[str, Part] | None = None,
    overwrite: bool = False,
) -> Artifact:
    """Write the folder: `events.parquet`, `items.parquet`, `users.parquet`, further files, and the manifest."""
    about = {
        "name": dataset.name,
        "clock": dataset.clock,
        "split": dict(dataset.split_settings),
        "facts": dict(dataset.facts),
        "fingerprint": dataset.fingerprint,
    }
    parts: dict[str, Part] = {
        "events.parquet": _events_table(dataset.events),
        "items.parquet": _with_ids(dataset.items, dataset.catalog.table, "item"),
        "users.parquet": _with_ids(dataset.users, dataset.people, "user"),
        **(extra or {}),
    }
    return save(folder, KIND, parts, Lineage(package=package), about, overwrite)


def load_dataset(folder: Path | str) -> Dataset:
    """Read a prepared folder after checking all of it."""
    artifact = load(folder, KIND)
    users, people = _without_ids(artifact.table("users.parquet"), "user")
    items, described = _without_ids(artifact.table("items.parquet"), "item")
    events = _events(artifact.table("events.parquet"), len(users), len(items))
    about = artifact.about
    dataset = Dataset(
        about["name"],
        users,
        events,
        Catalog(items, described),
        people,
        about["clock"],
        about["split"],
        about["facts"],
    )
    if dataset.fingerprint != about["fingerprint"]:
        raise DataError(f"{folder}: its events do not have the fingerprint of its manifest; prepare it again")
    return dataset


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
