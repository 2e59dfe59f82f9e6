"""Item vectors from a table of items and, where there are any, their categories and numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.errors import DataError
from shortlist.models.collaborative.item_features import ItemFeatures

CLIP = 10.0  # largest scaled number, in standard deviations
STD = 0.1  # of every coordinate of a new table


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes of an item encoder; without categories and numbers there are no features."""

    n_items: int
    width: int  # of the vector of an item itself
    feature_width: int  # of the vector of its features
    n_categories: int = 0
    categories_of_item: int = 0  # most categories of one item
    n_numbers: int = 0

    @property
    def has_features(self) -> bool:
        """Whether items have categories or numbers."""
        return self.n_categories > 0 or self.n_numbers > 0

    @property
    def total(self) -> int:
        """D, the width of an item vector."""
        return self.width + (self.feature_width if self.has_features else 0)


class ItemEncoder(nn.Module):
    """x_i = [e_i ; g(f_i)] [D]: a learned row of each item, and a vector of its features.

    g is the mean vector of the item's categories plus a layer of hidden units over its numbers: standardised, 0 and a
    flag where one is missing. In training e_i is replaced by the row of the unknown item with probability `dropout`,
    so that g can represent an item without events. Without features there is no g, and nothing is replaced.
    """

    categories: Tensor  # int32 [N, C] category rows, n_categories = none
    numbers: Tensor  # float32 [N, 2F] scaled numbers, and 1 where one is missing
    mean: Tensor  # float64 [F]
    std: Tensor  # float64 [F]

    def __init__(self, sizes: EncoderSizes, dropout: float = 0.0) -> None:
        super().__init__()
        self.sizes, self.dropout = sizes, dropout
        columns, width = sizes.n_numbers, sizes.feature_width
        # The last row is the unknown item. A step reads few rows, so gradients are sparse.
        self.items = nn.Embedding(sizes.n_items + 1, sizes.width, sparse=True)
        nn.init.normal_(self.items.weight, std=STD)
        with torch.no_grad():
            self.items.weight[-1] = 0.0  # it stays so where no item is left out in training
        shape = (sizes.n_items, sizes.categories_of_item)
        self.register_buffer("categories", torch.full(shape, sizes.n_categories, dtype=torch.int32))
        self.register_buffer("numbers", torch.zeros(sizes.n_items, 2 * columns))
        self.register_buffer("mean", torch.zeros(columns, dtype=torch.float64))
        self.register_buffer("std", torch.ones(columns, dtype=torch.float64))
        if sizes.n_categories:
            self.category_vectors = nn.Embedding(sizes.n_categories, width, sparse=True)
            nn.init.normal_(self.category_vectors.weight, std=STD)
        if columns:
            self.layers = nn.Sequential(nn.Linear(2 * columns, width), nn.ReLU(), nn.Linear(width, width))

    def with_features(self, features: ItemFeatures) -> "ItemEncoder":
        """Set the features of all items."""
        given = features.categories
        self.categories.copy_(given.masked_fill(given < 0, self.sizes.n_categories))
        mean, std = features.scale()
        self.mean.copy_(mean)
        self.std.copy_(std)
        self.numbers.copy_(_scaled(features.numbers, mean, std))
        return self

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of items [n, D]; -1 is an unknown item without features."""
        row = ids.masked_fill(ids < 0, self.sizes.n_items)
        if not self.sizes.has_features:
            vectors: Tensor = self.items(row)
            return vectors
        if self.training and self.dropout:
            dropped = torch.rand(row.shape, device=row.device) < self.dropout
            row = row.masked_fill(dropped, self.sizes.n_items)
        return torch.cat([self.items(row), self._features_of(ids)], dim=1)

    def of_features(self, categories: Tensor, numbers: Tensor) -> Tensor:
        """Vectors [x_unknown ; g(f)] of new items [n, D] from category rows [n, C], -1 = none, and the values of the
        numeric columns [n, F], NaN = missing; without features only x_unknown.
        """
        self._check(categories, numbers)
        numbers = _scaled(numbers.to(self.mean), self.mean, self.std).to(self.items.weight.dtype)
        unknown = self.items.weight[-1].expand(len(categories), -1)
        if not self.sizes.has_features:
            return unknown
        none = self.sizes.n_categories
        return torch.cat([unknown, self._g(categories.masked_fill(categories < 0, none), numbers)], dim=1)

    def _check(self, categories: Tensor, numbers: Tensor) -> None:
        expected = self.sizes.n_numbers
        if numbers.dim() != 2 or numbers.shape[1] != expected or len(numbers) != len(categories):
            raise DataError(
                f"features of new items: expected {expected} numbers for each of {len(categories)} items, got a "
                f"tensor of {list(numbers.shape)}; give the numeric columns of the training catalogue in their order"
            )
        if bool(numbers.isinf().any()):
            raise DataError(
                "features of new items: expected finite numbers or NaN, got infinity; fix the value"
            )
        if categories.numel() and int(categories.max()) >= max(self.sizes.n_categories, 1):
            raise DataError(
                f"features of new items: expected category rows below {self.sizes.n_categories}, got "
                f"{int(categories.max())}; use -1 for a category that is not in the training catalogue"
            )

    def _features_of(self, ids: Tensor) -> Tensor:
        """g of known items [n, feature_width]; of unknown ones as if all their features were missing."""
        row, unknown = ids.clamp(min=0), (ids < 0)[:, None]
        categories = self.categories[row].masked_fill(unknown, self.sizes.n_categories)
        flags = torch.arange(self.numbers.shape[1], device=ids.device) >= self.sizes.n_numbers
        numbers = torch.where(unknown, flags.to(self.numbers.dtype), self.numbers[row])
        return self._g(categories, numbers)

    def _g(self, categories: Tensor, numbers: Tensor) -> Tensor:
        """Feature vectors from category rows, n_categories = none, and scaled numbers [n, 2F] -> [n, feature_width]."""
        found = numbers.new_zeros(len(numbers), self.sizes.feature_width)
        if self.sizes.n_categories:
            valid = categories < self.sizes.n_categories  # [n, C]
            vectors = self.category_vectors(categories.long().masked_fill(~valid, 0))  # [n, C, F]
            found = (vectors * valid[..., None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
        return found + self.layers(numbers) if self.sizes.n_numbers else found


def _scaled(numbers: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Standardised numbers, 0 where missing, beside a flag for each: [n, F] -> [n, 2F]."""
    missing = numbers.isnan()
    scaled = ((numbers - mean) / std).clamp(-CLIP, CLIP).masked_fill(missing, 0.0)
    return torch.cat([scaled, missing.to(scaled.dtype)], dim=1)
