"""Rows of slates with ids, titles and the names of nominators."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data import Catalog


@dataclass(frozen=True, eq=False)
class SlateTable:
    """The columns of recommendations: user, item, rank, score, title where there are titles, nominators.

    A pipeline that samples adds `propensity`.
    """

    users: pa.Array  # ids by place
    catalog: Catalog
    nominators: tuple[str, ...]
    sampled: bool

    @cached_property
    def schema(self) -> pa.Schema:
        columns = {
            "user": self.users.type,
            "item": self.catalog.vocabulary.ids.type,
            "rank": pa.int32(),
            "score": pa.float32(),
            **({} if self._titles is None else {"title": pa.string()}),
            "nominators": pa.list_(pa.string()),
            **({"propensity": pa.float32()} if self.sampled else {}),
        }
        return pa.schema(columns)

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows with ids and names."""
        item = rows["item"]
        columns = {
            "user": self.users.take(rows["place"]),
            "item": self.catalog.vocabulary.ids.take(item),
            "rank": rows["rank"],
            "score": rows["score"],
            "title": None if self._titles is None else self._titles.take(item),
            "nominators": self._names(rows["nominators"]),
            "propensity": rows["propensity"],
        }
        return pa.record_batch([columns[name] for name in self.schema.names], schema=self.schema)

    @cached_property
    def _titles(self) -> pa.Array | None:
        """The title of every item, or its id if it has none; None for a catalogue without titles."""
        if "title" not in self.catalog.table.column_names:
            return None
        titles = pc.fill_null(self.catalog.table["title"].combine_chunks().cast(pa.string()), "")
        return pc.if_else(pc.equal(titles, ""), self.catalog.vocabulary.ids.cast(pa.string()), titles)

    def _names(self, bits: pa.Array) -> pa.Array:
        """The names of the nominators whose bits are set; few combinations occur, each is made once."""
        encoded = bits.dictionary_encode()
        names = [
            [name for number, name in enumerate(self.nominators) if one >> number & 1]
            for one in encoded.dictionary.to_pylist()
        ]
        return pa.array(names, pa.list_(pa.string())).take(encoded.indices)
