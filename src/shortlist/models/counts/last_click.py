"""LastClick: counts of which item follows which; a baseline for models that read whole histories."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.artifact.tensor_checks import check_starts, check_whole
from shortlist.models.model import Model, ModelConfig
from shortlist.models.sparse_scores import SparseScores, pays
from shortlist.settings import setting


@dataclass(frozen=True)
class LastClickConfig(ModelConfig):
    """Sizes of the table of transitions; only the last item of a history is read."""

    max_history: int = setting(1, derived=True)
    pairs: int = setting(0, "Number of stored pairs (item, next item).", least=0, derived=True)
    backoff: float = setting(
        10.0, "Popularity counts as this many transitions of every item.", least=1e-9, most=1e9
    )


class LastClick(Model):
    """Counts of which item follows the last one, with popularity as backoff.

    p(next | last) = (count(last, next) + backoff * popularity(next)) / (count(last) + backoff). The popularity of
    an item is its share of all events. It is the answer for an empty history, and it orders items that never
    followed the last one. Item i owns next_items[starts[i]:starts[i + 1]].
    """

    Config = LastClickConfig
    config: LastClickConfig
    starts: Tensor  # [N + 1]
    next_items: Tensor  # [pairs] item rows
    counts: Tensor  # [pairs]
    total: Tensor  # [N] transitions from each item, also those that are not stored
    popularity: Tensor  # [N]

    def __init__(self, config: LastClickConfig) -> None:
        super().__init__(config)
        self.register_buffer("starts", torch.zeros(config.n_items + 1, dtype=torch.int64))
        self.register_buffer("next_items", torch.zeros(config.pairs, dtype=torch.int64))
        self.register_buffer("counts", torch.zeros(config.pairs))
        self.register_buffer("total", torch.zeros(config.n_items))
        self.register_buffer("popularity", torch.zeros(config.n_items))

    def check_catalogue(self, n_items: int) -> None:
        super().check_catalogue(n_items)
        check_starts("starts", self.starts, n_items, self.config.pairs)
        check_whole("next_items", self.next_items, 0, n_items)

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        rows, counts, total = self.followed(history)
        backoff = self.config.backoff
        scores = pad(backoff * self.popularity, (0, 1)).repeat(
            len(history), 1
        )  # the last column takes padding
        scores.scatter_add_(1, torch.where(rows < 0, self.config.n_items, rows), counts)
        return scores[:, :-1] / (total + backoff)[:, None]

    def sparse_scores(self, history: Tensor) -> SparseScores | None:
        rows, counts, total = self.followed(history)
        if not pays(rows.shape[1], self.config.n_items, self.popularity):
            return None
        backoff = self.config.backoff
        return SparseScores(rows, counts, backoff * self.popularity, self._order, total + backoff)

    @cached_property
    def _order(self) -> Tensor:
        return self.popularity.sort(descending=True, stable=True).indices

    def followed(self, history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Items that followed each last item [U, M], -1 = padding, their counts [U, M], and the count of all [U]."""
        last = pad(self.read(history), (1, 0), value=-1)[:, -1]  # [U]
        row = torch.where(
            last < 0, self.config.n_items, last
        )  # no item: a row after all items, without next items
        starts, stops = self.starts[row], pad(self.starts, (0, 1), value=self.config.pairs)[row + 1]
        longest = int((stops - starts).max()) if len(last) else 0
        places = starts[:, None] + torch.arange(longest, device=last.device)  # [U, M]
        # Places beyond the row read one padded pair after all others.
        places = places.masked_fill(places >= stops[:, None], self.config.pairs)
        rows, counts = pad(self.next_items, (0, 1), value=-1)[places], pad(self.counts, (0, 1))[places]
        return rows, counts, pad(self.total, (0, 1))[row]
