"""World B: MovieLens with its missing ratings completed. Only the builder is part of the package, not the data."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data import Dataset, read
from shortlist.errors import DataError
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.cell_noise import Floats, Rows, cell_uniforms
from shortlist.simulate.full_stage.ratings.completion import (
    Completion,
    CompletionConfig,
    CompletionReport,
    Ratings,
    complete,
)

LIKED = 4.0  # a rating from which the label is 1
ITEM_BITS = 32  # of the number of a cell
USER_COLUMNS = ("gender", "age", "occupation")


@dataclass(frozen=True, eq=False)
class MovieLensWorld:
    """Observed cells keep the real rating; the label of others is Bernoulli(r), fixed by the seed.

    Methods take users [B] and items [K] or [B, K] and return cells [B, K].
    """

    ratings: Ratings
    completion: Completion
    report: CompletionReport
    seed: int

    @property
    def n_users(self) -> int:
        return len(self.ratings.user_attributes)

    @property
    def n_items(self) -> int:
        return len(self.ratings.item_attributes)

    def r(self, users: Rows, items: Rows) -> Floats:
        """The probability of a label of 1: that of the completion, 1 or 0 where the rating was observed."""
        value = self.rating(users, items)
        known = np.where(value >= LIKED, np.float32(1), np.float32(0))
        return np.where(np.isnan(value), self.completion.probability(users, items), known)

    def labels(self, users: Rows, items: Rows) -> NDArray[np.bool_]:
        """The label of every cell, always the same."""
        return np.asarray(cell_uniforms(self.seed, 0, users, items) < self.r(users, items))

    def observed(self, users: Rows, items: Rows) -> NDArray[np.bool_]:
        """The mask of cells with a real rating: every result is also reported on these only."""
        return ~np.isnan(self.rating(users, items))

    def rating(self, users: Rows, items: Rows) -> Floats:
        """The observed rating, NaN where there is none."""
        keys, values = self._table
        cells = (users[:, None].astype(np.int64) << ITEM_BITS) + items
        at = np.minimum(np.searchsorted(keys, cells), len(keys) - 1)
        return np.where(keys[at] == cells, values[at], np.float32(np.nan))

    @cached_property
    def _table(self) -> tuple[Rows, Floats]:
        """Numbers of observed cells, ascending, and their ratings."""
        keys = (self.ratings.users << ITEM_BITS) + self.ratings.items
        order = np.argsort(keys)
        return keys[order], self.ratings.values[order]


def movielens_world(
    source: Dataset | Path | str,
    seed: int = 0,
    config: CompletionConfig | None = None,
    progress: Progress = silent,
) -> MovieLensWorld:
    """A world from MovieLens-1M or 100K: a folder, a zip, or a data set read with `weights="use"`."""
    dataset = source if isinstance(source, Dataset) else read(source, "movielens", weights="use")
    ratings = ratings_of(dataset)
    completion, report = complete(ratings, LIKED, config, seed, progress)
    return MovieLensWorld(ratings, completion, report, seed)


def ratings_of(dataset: Dataset) -> Ratings:
    """The ratings of a data set with attributes of users (gender, age, occupation) and genres of items."""
    events = dataset.events
    if events.weights.min(initial=5.0) == events.weights.max(initial=0.0):
        raise DataError(f'{dataset.name}: expected ratings, got equal weights; read it with weights="use"')
    columns = [
        _one_hot(dataset.user_table[name]) for name in USER_COLUMNS if name in dataset.user_table.column_names
    ]
    users = np.column_stack([np.zeros((events.n_users, 0), np.float32), *columns])
    return Ratings(
        events.users.astype(np.int64), events.items.astype(np.int64), events.weights, users, _genres(dataset)
    )


def _one_hot(column: pa.ChunkedArray) -> Floats:
    """One column per value."""
    codes = column.combine_chunks().dictionary_encode()
    rows = codes.indices.to_numpy(zero_copy_only=False)
    return np.asarray(rows[:, None] == np.arange(len(codes.dictionary)), np.float32)


def _genres(dataset: Dataset) -> Floats:
    """One column per genre [I, G]; a film has several."""
    lists, count = dataset.catalog.category_lists, len(dataset.catalog.categories)
    genres = np.zeros((len(lists), count + 1), np.float32)
    np.put_along_axis(genres, np.where(lists >= 0, lists, count), 1.0, axis=1)
    return genres[:, :count]
