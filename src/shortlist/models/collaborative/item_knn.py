"""Item-kNN: every item of a history adds the similarities of its nearest neighbours."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from shortlist.artifact.tensor_checks import check_whole
from shortlist.models.model import Model, ModelConfig, without_repeats
from shortlist.models.sparse_scores import SparseScores, pays
from shortlist.settings import setting

POPULARITY = 1e-6  # weight of popularity beside similarities
BLOCK = 64  # positions of a history at a time: all neighbours of a long history would not fit into memory


@dataclass(frozen=True)
class ItemKNNConfig(ModelConfig):
    """Item-kNN reads the whole history."""

    max_history: int = 10_000
    neighbours: int = setting(20, "Largest number of neighbours of an item.", least=1, most=100_000)


class ItemKNN(Model):
    """Every item of a history adds the similarities of its nearest neighbours.

    Memory grows with the number of items, not with pairs of items. Items that no neighbour adds to come last,
    ordered by popularity; so does every item for an empty history.
    """

    Config = ItemKNNConfig
    config: ItemKNNConfig

    def __init__(self, config: ItemKNNConfig) -> None:
        super().__init__(config)
        shape = (config.n_items, config.neighbours)
        self.neighbours = nn.Parameter(
            torch.full(shape, -1, dtype=torch.int64), requires_grad=False
        )  # -1 = none
        self.similarities = nn.Parameter(torch.zeros(shape), requires_grad=False)
        self.popularity = nn.Parameter(
            torch.zeros(config.n_items), requires_grad=False
        )  # share of all events

    def check_catalogue(self, n_items: int) -> None:
        super().check_catalogue(n_items)
        check_whole("neighbours", self.neighbours, -1, n_items)

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = without_repeats(self.read(history))  # an item counts once
        scores = self.similarities.new_zeros(len(history), self.config.n_items + 1)
        for block in torch.split(history, BLOCK, dim=1):  # [U, <= BLOCK]
            rows, valid = block.clamp(min=0), (block >= 0)[..., None]
            neighbours = self.neighbours[rows]  # [U, K, M]
            columns = torch.where(
                (neighbours < 0) | ~valid, self.config.n_items, neighbours
            )  # the last: padding
            scores.scatter_add_(1, columns.flatten(1), self.similarities[rows].flatten(1))
        return scores[:, :-1] + self._base

    def sparse_scores(self, history: Tensor) -> SparseScores | None:
        history = self.read(history)
        pairs = history.shape[1] * self.neighbours.shape[1]
        if not pays(pairs, self.config.n_items, self.similarities):
            return None
        history = without_repeats(history)
        rows = history.clamp(min=0)
        keys = self.neighbours[rows].masked_fill((history < 0)[..., None], -1).flatten(1)
        values = self.similarities[rows].flatten(1)
        return SparseScores(keys, values, self._base, self._order, values.new_ones(len(history)))

    @property
    def _base(self) -> Tensor:
        """Popularity is below every similarity that counts: it orders the items without any."""
        return POPULARITY * self.popularity

    @cached_property
    def _order(self) -> Tensor:
        return self._base.sort(descending=True, stable=True).indices
