"""An array that grows at its end."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

GROWTH = 1.25  # of the capacity, so that at most a fifth of the memory is unused
LEAST = 64


class GrowingArray:
    """Values of one type; those that were never set are `fill`."""

    def __init__(self, dtype: DTypeLike, fill: int = 0, row: tuple[int, ...] = ()) -> None:
        self.fill, self.size = fill, 0
        self.data: NDArray[Any] = np.empty((0, *row), dtype)  # [capacity, ..]

    def __len__(self) -> int:
        return self.size

    @property
    def values(self) -> NDArray[Any]:
        """The values [size, ..], without a copy."""
        return self.data[: self.size]

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def reserve(self, size: int) -> None:
        """Make room for `size` values: after it, `resize` to it takes no memory and cannot fail."""
        if size <= len(self.data):
            return
        capacity = max(size, int(len(self.data) * GROWTH), LEAST)
        grown = np.empty((capacity, *self.data.shape[1:]), self.data.dtype)
        grown[: self.size] = self.data[: self.size]
        grown[self.size :] = np.zeros((), grown.dtype) if self.fill == 0 else self.fill
        self.data = grown

    def resize(self, size: int) -> None:
        """Have `size` values; new ones are `fill`."""
        self.reserve(size)
        self.size = size
