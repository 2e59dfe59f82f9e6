"""What others met together with what you met."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator
from shortlist.index import top


@dataclass(frozen=True, eq=False, repr=False)
class CoVisit(Nominator):
    """Sum of the likeness of every item to the last `last` of the history, the older the fainter by `fade`."""

    neighbour: Tensor  # [N, M] item rows most like each item, -1 = none
    likeness: Tensor  # [N, M] cosine of their meetings, 0 where none
    last: int = 30
    history_decay: float = 0.95

    def __post_init__(self) -> None:
        if self.last < 1 or not 0 < self.history_decay <= 1:
            raise ConfigError(
                f"covisit {self.title!r}: expected last >= 1 and 0 < history_decay <= 1, got {self.last} and {self.history_decay}"
            )

    def nominate(self, query: Query) -> Candidates:
        history = query.history[:, -self.last :]  # [B, H]
        age = torch.arange(history.shape[1] - 1, -1, -1, device=history.device)
        weight = (self.history_decay**age) * (history >= 0)  # [B, H]
        rows = history.clamp(min=0)
        named = self.neighbour[rows].flatten(1)  # [B, H * M]
        likeness = (self.likeness[rows] * weight[:, :, None]).flatten(1)
        # One column more than items: places without a neighbour write there, and it is dropped.
        total = likeness.new_zeros((len(query), len(self.neighbour) + 1))
        total.scatter_add_(1, named.masked_fill(named < 0, len(self.neighbour)), likeness)
        scores, items = top(total[:, :-1], self.limit)
        return Candidates.of(items.masked_fill(scores <= 0, -1), scores)
