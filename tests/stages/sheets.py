"""A sheet over a small world, for tests of the rankers that read one."""

import pyarrow as pa
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.stages.columns import Columns
from shortlist.stages.features import RankingFeatures
from shortlist.stages.sheet import Sheet
from tests.worlds import N_CATEGORIES, N_ITEMS


def described() -> Catalog:
    """Items with a price that some lack, a kind and genres."""
    rows = range(N_ITEMS)
    table = pa.table(
        {
            "price": [None if row % 7 == 0 else float(row) for row in rows],
            "kind": [f"k{row % 3}" for row in rows],
            "genres": ["|".join({f"g{row % 5}", f"g{row % 4}"}) for row in rows],
        }
    )
    return Catalog(Vocabulary.of([f"i{row}" for row in rows]), table)


def sheet(nominators: tuple[str, ...] = ("a", "b"), seed: int = 0) -> Sheet:
    """What two nominators, counts by chance and the columns say."""
    counts = torch.randint(0, 50, (2, N_ITEMS), generator=torch.Generator().manual_seed(seed))
    features = RankingFeatures(nominators, counts[0], counts[1], torch.arange(N_ITEMS) % N_CATEGORIES)
    return Sheet(features, Columns.of(described(), (counts[0] > 0).numpy()))
