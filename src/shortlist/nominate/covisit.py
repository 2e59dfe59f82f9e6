"""Co-visitation: items that other users interacted with together with the history's items."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_floats, check_shape, check_whole
from shortlist.data import Candidates, Query
from shortlist.data.membership import sums_of
from shortlist.grammar import Nominator
from shortlist.index import top
from shortlist.index.sparse_top import sparse_top
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class CoVisit(Nominator):
    """Sum of the cosine similarity of every item to the last `last` history items, decayed with age."""

    neighbour: Tensor  # [N, M] most similar item rows of each item, -1 = none
    likeness: Tensor  # [N, M] their cosine similarity, 0 where none
    last: int = setting(30, "History items that count, the most recent ones.", least=1)
    history_decay: float = setting(0.95, "Weight factor per step back in the history.", least=1e-9, most=1)
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("neighbour", self.neighbour, n_items, None)
        check_whole("neighbour", self.neighbour, -1, n_items)
        check_shape("likeness", self.likeness, *self.neighbour.shape)
        check_floats("likeness", self.likeness)

    def nominate(self, query: Query) -> Candidates:
        neighbours, likeness = self._neighbours(query.history)
        seen = query.history if self.exclude_seen else None
        best = sparse_top if likeness.is_cpu else dense_top
        items, scores = best(neighbours, likeness, len(self.neighbour), self.limit, seen)
        return Candidates.of(items.masked_fill(scores <= 0, -1), scores.clamp(min=0))

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": sums_of(items, *self._neighbours(query.history))}

    def _neighbours(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """The neighbours of the recent history [B, H * M], -1 = none, and their decayed similarities."""
        history = history[:, -self.last :]  # [B, H]
        age = torch.arange(history.shape[1] - 1, -1, -1, device=history.device)
        weight = (self.history_decay**age) * (history >= 0)  # [B, H]
        rows = history.clamp(min=0)
        neighbours = self.neighbour[rows].masked_fill((history < 0)[:, :, None], -1)
        return neighbours.flatten(1), (self.likeness[rows] * weight[:, :, None]).flatten(1)


def dense_top(
    keys: Tensor, values: Tensor, n_items: int, k: int, exclude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`sparse_top` by a matrix of requests by items, on any device."""
    # One extra column: places without a neighbour add to it, and it is dropped.
    total = values.new_zeros((len(keys), n_items + 1))
    total.scatter_add_(1, keys.masked_fill(keys < 0, n_items), values)
    scores, items = top(total[:, :-1], k, exclude)
    return items, scores
