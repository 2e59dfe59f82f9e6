"""What indexes that look at some of the items have in common: they are asked for more, and asked again."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.index.vectors import VectorIndex

HARDER = 4  # times the effort when too little was found


@dataclass(frozen=True, eq=False)
class ApproximateIndex(VectorIndex):
    """Leaves out what is excluded afterwards, and so asks for as many more; where that is not enough, looks harder."""

    n_items: int
    width: int

    @abstractmethod
    def ask(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        """Rows, -1 = none, and products of at most k items for `queries`, arrays [B, k]; effort 1 is the usual one."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The effort at which every item is looked at."""

    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        finite = queries.isfinite().all(1, keepdim=True).cpu()  # [B, 1]
        asked = queries.detach().cpu().float().masked_fill(~finite, 0.0)
        rows, scores = self._found(asked, k, distinct(exclude, len(queries), self.n_items))
        rows, scores = rows.masked_fill(~finite, -1), scores.masked_fill(~finite, -torch.inf)
        return rows.to(queries.device), scores.to(queries.device)

    def _found(self, queries: Tensor, k: int, met: Tensor) -> tuple[Tensor, Tensor]:
        """The k best that were not met; who has found too few looks harder."""
        rows, scores = self._left(queries, k, met, effort=1)
        wanted, effort = (self.n_items - (met >= 0).sum(1)).clamp(max=k), 1
        while effort < self.most and bool((lacking := (rows >= 0).sum(1) < wanted).any()):
            effort = min(effort * HARDER, self.most)
            rows[lacking], scores[lacking] = self._left(queries[lacking], k, met[lacking], effort)
        return rows, scores

    def _left(self, queries: Tensor, k: int, met: Tensor, effort: int) -> tuple[Tensor, Tensor]:
        """The k best of what was found and not met."""
        if not k or not len(queries):
            return torch.full((len(queries), k), -1), torch.full((len(queries), k), -torch.inf)
        most = int((met >= 0).sum(1).max())
        found = self.ask(queries.contiguous().numpy(), min(k + most, self.n_items), effort)
        rows, scores = (torch.from_numpy(one) for one in found)
        rows = rows.long().masked_fill(is_in(rows.long(), met), -1)
        return ordered(rows, scores.float().masked_fill(rows < 0, -torch.inf), k)


def distinct(exclude: Tensor | None, count: int, n_items: int) -> Tensor:
    """Rows to exclude, each once and -1 for all else [B, H], on the CPU."""
    if exclude is None or not exclude.shape[1]:
        return torch.empty((count, 0), dtype=torch.int64)
    rows = exclude.cpu().long().sort(dim=1).values
    again = torch.zeros_like(rows, dtype=torch.bool)
    again[:, 1:] = rows[:, 1:] == rows[:, :-1]
    return rows.masked_fill(again | (rows < 0) | (rows >= n_items), -1)


def ordered(rows: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best, best first, equal ones by row, what is none last [B, k]."""
    rows, at = rows.sort(dim=1)
    scores, order = scores.gather(1, at).sort(dim=1, descending=True, stable=True)
    rows, missing = rows.gather(1, order)[:, :k], k - rows.shape[1]
    pad = torch.nn.functional.pad
    return pad(rows, (0, max(missing, 0)), value=-1), pad(
        scores[:, :k], (0, max(missing, 0)), value=-torch.inf
    )
