"""Models of one stage, one per temperature, as stacked tensors: all of them take a step at once.

The score is cosine / temperature of a user and an item vector. Stacked models share no weights, so a step of the sum of
their losses is a step of each.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

START = 0.1  # standard deviation of the first vectors


class StackedFactors(nn.Module):
    """Matrix factorization: a vector of each user and item."""

    temperatures: Tensor  # [G]

    def __init__(
        self, n_users: int, n_items: int, width: int, temperatures: Sequence[float], seed: int
    ) -> None:
        super().__init__()
        self.register_buffer("temperatures", torch.tensor(temperatures))
        generator = torch.Generator().manual_seed(seed)
        self.users, self.items = (self._table(n, width, generator) for n in (n_users, n_items))

    def _table(self, rows: int, width: int, generator: torch.Generator) -> nn.Parameter:
        """The same first vectors for every temperature [G, rows, D]."""
        return self._stacked(START * torch.randn((rows, width), generator=generator))

    def _stacked(self, start: Tensor) -> nn.Parameter:
        return nn.Parameter(start.expand(len(self.temperatures), *start.shape).clone())

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores [G, B, L] of users [B] and items [B, L]; any score for item -1."""
        left = _taken(self.user_vectors, self.users, users)  # [G, B, D]
        right = _taken(self.item_vectors, self.items, items.clamp(min=0).flatten())
        right = right.view(*left.shape[:2], items.shape[1], -1)
        return (right @ left[..., None]).squeeze(-1) / self.temperatures[:, None, None]

    def user_vectors(self, rows: Tensor) -> Tensor:
        """Unit vectors from rows of the table [G, N, D]."""
        return F.normalize(rows, dim=-1)

    def item_vectors(self, rows: Tensor) -> Tensor:
        """Unit vectors from rows of the table [G, N, D]."""
        return F.normalize(rows, dim=-1)

    @torch.no_grad()
    def vectors(self) -> tuple[Tensor, Tensor]:
        """Unit vectors of all users [G, U, D] and items [G, I, D]."""
        return self.user_vectors(self.users), self.item_vectors(self.items)


class StackedTowers(StackedFactors):
    """Two towers: a vector of each user and item, and one hidden layer of each side added to it."""

    def __init__(
        self, n_users: int, n_items: int, width: int, temperatures: Sequence[float], seed: int
    ) -> None:
        super().__init__(n_users, n_items, width, temperatures, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        shapes = ((width, 2 * width), (2 * width, width))
        layers = [
            self._stacked(torch.randn(shape, generator=generator) / shape[0] ** 0.5) for shape in shapes * 2
        ]
        self.user_in, self.user_out, self.item_in, self.item_out = layers

    def user_vectors(self, rows: Tensor) -> Tensor:
        return F.normalize(rows + torch.relu(rows @ self.user_in) @ self.user_out, dim=-1)

    def item_vectors(self, rows: Tensor) -> Tensor:
        return F.normalize(rows + torch.relu(rows @ self.item_in) @ self.item_out, dim=-1)


def _taken(vectors: Callable[[Tensor], Tensor], table: Tensor, rows: Tensor) -> Tensor:
    """Vectors of some rows [G, N, D]; of the whole table first where it has fewer rows than the batch."""
    if len(rows) < table.shape[1]:
        return vectors(_rows(table, rows))
    return _rows(vectors(table), rows)


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    """The same rows [N] of every stacked table [G, R, D] -> [G, N, D]."""
    stack, size, width = table.shape
    first = size * torch.arange(stack, device=rows.device)[:, None]
    # The gradient of index_select adds rows in place; that of an embedding sorts them first, slow for small batches.
    taken = table.reshape(stack * size, width).index_select(0, (first + rows).flatten())
    return taken.view(stack, -1, width)
