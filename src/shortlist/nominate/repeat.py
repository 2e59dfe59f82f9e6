"""Items of the user's own history, for logs in which users take the same items again."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import sums_of
from shortlist.grammar import Nominator
from shortlist.index import top
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Nominator):
    """The distinct items of the history: every event of an item adds to its score, recent events more."""

    history_decay: float = setting(0.95, "Weight factor per step back in the history.", least=1e-9, most=1)

    def nominate(self, query: Query) -> Candidates:
        items = distinct(query.history)
        scores = sums_of(items, query.history, self._weights(query.history))
        best, places = top(scores.masked_fill(items < 0, -torch.inf), min(self.limit, items.shape[1]))
        return Candidates.of(items.gather(1, places), best.masked_fill(best == -torch.inf, 0.0))

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": sums_of(items, query.history, self._weights(query.history))}

    def _weights(self, history: Tensor) -> Tensor:
        """The weight of every event of the history [B, H], 0 where there is none."""
        age = torch.arange(history.shape[1] - 1, -1, -1, device=history.device)
        return self.history_decay**age * (history >= 0)


def distinct(history: Tensor) -> Tensor:
    """Every item of a row once [B, H], in ascending order, -1 in the other places."""
    ordered = history.sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, -1)
