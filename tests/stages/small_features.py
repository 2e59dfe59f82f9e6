"""Ranking features over a small world."""

import pyarrow as pa
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.data.catalog import split_texts
from shortlist.stages import RankingFeatures
from shortlist.stages.catalog_columns import CatalogColumns
from tests.worlds import N_CATEGORIES, N_ITEMS


def small_catalog() -> Catalog:
    """Items with a price that some lack, a kind and genres."""
    rows = range(N_ITEMS)
    table = pa.table(
        {
            "price": [None if row % 7 == 0 else float(row) for row in rows],
            "kind": [f"k{row % 3}" for row in rows],
            "genres": ["|".join({f"g{row % 5}", f"g{row % 4}"}) for row in rows],
        }
    )
    return Catalog(Vocabulary.of([f"i{row}" for row in rows]), split_texts(table))


def small_features(nominators: tuple[str, ...] = ("a", "b"), seed: int = 0) -> RankingFeatures:
    """Features of two nominators, random counts and all columns."""
    counts = torch.randint(0, 50, (2, N_ITEMS), generator=torch.Generator().manual_seed(seed))
    columns = CatalogColumns.of(small_catalog(), (counts[0] > 0).numpy())
    return RankingFeatures(nominators, counts[0], counts[1], torch.arange(N_ITEMS) % N_CATEGORIES, columns)
