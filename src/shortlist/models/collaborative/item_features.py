"""Categories and numbers of items, as tensors that an item encoder reads."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog
from shortlist.errors import DataError

LARGEST = 1e100  # squares of larger numbers have no finite sum
NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """The categories of every item and the values of its numeric columns."""

    categories: Tensor  # int64 [N, C] category rows, -1 = none
    n_categories: int
    numbers: Tensor  # float64 [N, F], NaN = missing
    names: tuple[str, ...]  # of the numeric columns

    @classmethod
    def of(cls, catalog: Catalog) -> "ItemFeatures | None":
        """The column `category` and all numeric columns; None for a catalogue without any of them.

        A column with an infinite or huge value, or without any value, is refused.
        """
        table = catalog.table
        names = [one for one in table.column_names if any(is_kind(table[one].type) for is_kind in NUMBERS)]
        names = [one for one in names if one != "category"]
        described = "category" in table.column_names
        if not names and not described:
            return None
        lists = catalog.category_lists if described else np.empty((len(catalog), 0), np.int64)
        columns = [_values(name, table[name]) for name in names]
        numbers = np.column_stack([np.empty((len(catalog), 0)), *columns])
        n_categories = len(catalog.categories) if described else 0
        return cls(torch.from_numpy(lists), n_categories, torch.from_numpy(numbers), tuple(names))

    def scale(self) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation of every column over its present values [F]; 1 for a constant column."""
        numbers = self.numbers.numpy()
        if not numbers.size:
            return torch.from_numpy(np.zeros(numbers.shape[1])), torch.from_numpy(np.ones(numbers.shape[1]))
        # Equal numbers have a standard deviation above 0 by rounding.
        spread = np.where(np.nanmax(numbers, 0) > np.nanmin(numbers, 0), np.nanstd(numbers, 0), 1.0)
        return torch.from_numpy(np.nanmean(numbers, 0)), torch.from_numpy(spread)


def _values(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """The values of a numeric column [N], NaN = missing."""
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    if (large := np.abs(values) > LARGEST).any():
        row = int(np.flatnonzero(large)[0])
        raise DataError(
            f"item column {name!r}: expected finite numbers up to {LARGEST:g}, got {values[row]} in row {row}; fix the "
            "value, leave it empty, or train without item features (features = false)"
        )
    if len(values) and np.isnan(values).all():
        raise DataError(
            f"item column {name!r}: expected at least one number, got only missing values (NaN); remove the column, "
            "or train without item features (features = false)"
        )
    return values
