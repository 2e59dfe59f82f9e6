"""Scores of all items of which few differ from one common order, without a matrix of requests by items."""

from dataclasses import dataclass

from torch import Tensor

from shortlist.data.membership import sums_of


@dataclass(frozen=True, eq=False)
class SparseScores:
    """The score of item i is (base[i] + the sum of the values whose key is i) / scale."""

    keys: Tensor  # [U, P] item rows, -1 = none
    values: Tensor  # [U, P]
    base: Tensor  # [N] what every request adds to an item
    order: Tensor  # [N] item rows, the largest base first
    scale: Tensor  # [U]

    def of(self, items: Tensor) -> Tensor:
        """Scores of given items [U, K]."""
        return (sums_of(items, self.keys, self.values) + self.base[items]) / self.scale[:, None]


def pays(pairs: int, n_items: int, values: Tensor) -> bool:
    """Whether so many pairs per request are cheaper than the scores of all items."""
    return values.is_cpu and 2 * pairs <= n_items
