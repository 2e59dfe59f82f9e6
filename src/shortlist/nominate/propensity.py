"""Probabilities of items that were nominated with noisy user vectors, computed when they are read."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import torch
from torch import Tensor

from shortlist.data.candidates import first_positions
from shortlist.models.serving_noise import inclusion_shares

PROPENSITY = "propensity"


class Propensities(Mapping[str, Tensor]):
    """The column `propensity` of nominated items [B, K], 0 for an empty place.

    A request does not wait for it: the log reads it in its own thread. `wide` searches the items that compete for the
    `limit` places, by scores without noise.
    """

    def __init__(
        self,
        vectors: Tensor,
        users: Tensor,
        items: Tensor,
        seeds: Tensor,
        sigma: float,
        limit: int,
        wide: Callable[[], tuple[Tensor, Tensor]],
    ) -> None:
        self._vectors, self._users, self._items, self._seeds = vectors, users, items, seeds
        self._sigma, self._limit, self._wide = sigma, limit, wide

    @cached_property
    def _column(self) -> Tensor:
        rows = torch.cat([self._items, self._wide()[0]], dim=1)
        _, leads = first_positions(rows, rows >= 0)
        leads &= rows >= 0
        return torch.stack([self._row(number, rows[number], leads[number]) for number in range(len(rows))])

    @torch.no_grad()
    def _row(self, number: int, rows: Tensor, leads: Tensor) -> Tensor:
        """The probabilities of the items of one request [K]."""
        user, seed = self._users[number], int(self._seeds[number])
        shares = inclusion_shares(user, self._vectors[rows[leads]], self._sigma, self._limit, seed)
        return torch.zeros(len(rows)).masked_scatter(leads.cpu(), shares.cpu())[: self._items.shape[1]]

    def __getitem__(self, name: str) -> Tensor:
        if name != PROPENSITY:
            raise KeyError(name)
        return self._column

    def __contains__(self, name: object) -> bool:
        return name == PROPENSITY

    def __iter__(self) -> Iterator[str]:
        return iter((PROPENSITY,))

    def __len__(self) -> int:
        return 1
