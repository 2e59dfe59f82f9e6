"""What came next after the item met last, counted: a yardstick for everything that reads whole histories."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.errors import ConfigError
from shortlist.models.model import Model, ModelConfig


@dataclass(frozen=True)
class LastClickConfig(ModelConfig):
    """How many pairs are stored, and for how many steps from one item to the next popularity counts."""

    max_history: int = 1
    pairs: int = 0  # stored (item, next item), over all items
    backoff: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs < 0 or not self.backoff > 0:
            raise ConfigError(
                f"last-click: expected pairs from 0 and a backoff above 0, got {self.pairs} and {self.backoff}"
            )


class LastClick(Model):
    """p(next | last) = (count(last, next) + backoff * share(next)) / (count(last) + backoff).

    The share of all events an item has is the answer where nothing was met, and decides among pairs that were never
    counted. Older items of a history do not matter. Item i owns nexts[starts[i]:starts[i + 1]].
    """

    Config = LastClickConfig
    starts: Tensor  # [N + 1]
    nexts: Tensor  # [pairs] item rows
    counts: Tensor  # [pairs]
    total: Tensor  # [N] steps from each item, also those to items that are not stored
    share: Tensor  # [N]

    def __init__(self, config: LastClickConfig) -> None:
        super().__init__(config)
        self.register_buffer("starts", torch.zeros(config.n_items + 1, dtype=torch.int64))
        self.register_buffer("nexts", torch.zeros(config.pairs, dtype=torch.int64))
        self.register_buffer("counts", torch.zeros(config.pairs))
        self.register_buffer("total", torch.zeros(config.n_items))
        self.register_buffer("share", torch.zeros(config.n_items))

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        rows, counts, total = self.followed(history)
        backoff: float = self.config.backoff
        wide = pad(backoff * self.share, (0, 1)).repeat(len(history), 1)  # a place for what is no item
        wide.scatter_add_(1, torch.where(rows < 0, self.config.n_items, rows), counts)
        return wide[:, :-1] / (total + backoff)[:, None]

    def followed(self, history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What followed each last item [U, M], -1 = padding, how often [U, M], and how often anything did [U]."""
        last = pad(self.read(history), (1, 0), value=-1)[:, -1]  # [U]
        at = torch.where(
            last < 0, self.config.n_items, last
        )  # what is no item comes after all items, and has no next
        starts, stops = self.starts[at], pad(self.starts, (0, 1), value=self.config.pairs)[at + 1]
        most = int((stops - starts).max()) if len(last) else 0
        places = starts[:, None] + torch.arange(most, device=last.device)  # [U, M]
        outside = places >= stops[:, None]
        # One pair more than there are: places outside read there.
        places = places.masked_fill(outside, self.config.pairs)
        rows, counts = pad(self.nexts, (0, 1), value=-1)[places], pad(self.counts, (0, 1))[places]
        return rows, counts, pad(self.total, (0, 1))[at]
