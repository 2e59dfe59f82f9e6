"""Nominators with a chosen list for each user, and held-out requests for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from shortlist.data import Candidates, HeldOut, Query
from shortlist.grammar import Nominator
from tests.diagnose.held_out import held_out_of

HISTORY = 90  # an item that nobody nominates


@dataclass(frozen=True, eq=False, repr=False)
class Own(Nominator):
    """Nominates the list of the request's user."""

    rows: torch.Tensor  # [users, L]

    def nominate(self, query: Query) -> Candidates:
        items = self.rows[query.user]
        return Candidates.of(items, -torch.arange(items.shape[1]).expand(items.shape).float())


def own(name: str, rows: Sequence[Sequence[int]], limit: int = 100) -> Own:
    """The nominator of these lists, padded at the end."""
    width = max([len(row) for row in rows] + [1])
    return Own(torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows]), name=name, limit=limit)


def relevant(rows: Sequence[Sequence[int]], history: int = 1) -> HeldOut:
    """A request per user with these relevant items."""
    return held_out_of([([HISTORY] * history, row) for row in rows])
