"""The trainer of item-kNN: cosine similarities of items by their users, the best few for each item."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.models.collaborative.item_knn import ItemKNN
from shortlist.progress import Progress, silent, tracked
from shortlist.settings import setting
from shortlist.train.models.counting.co_visit import CELLS, USUAL_WEIGHT, item_blocks, nearest_items
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback


@dataclass(frozen=True)
class ItemKNNTrainer(ModelTrainer):
    """Cosine of the users of two items; `shrink` users are added to the denominator against rare pairs."""

    uses_weights: ClassVar[bool | None] = True
    counts_only: ClassVar[bool] = True

    model: type[Any] = field(default=ItemKNN, kw_only=True)
    shrink: float = setting(
        0.0, "Users added to the denominator of every similarity; damps rare pairs.", least=0, most=1e9
    )

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> ItemKNN:
        width = max(min(self.config.neighbours, events.n_items - 1), 1)
        model = ItemKNN(replace(self.config_for(events), neighbours=width))
        if not len(events):
            return model.eval()
        matrix = events.weighted_matrix().tocsc()
        norms = np.sqrt(np.asarray(matrix.power(2).sum(0))).ravel()
        blocks = [
            nearest_items(matrix, norms, block, width, self.shrink / USUAL_WEIGHT)
            for block in tracked(item_blocks(matrix, CELLS), "item-knn", progress)
        ]
        neighbours, similarities = (np.concatenate(part) for part in zip(*blocks, strict=True))
        model.neighbours.copy_(torch.from_numpy(neighbours))
        model.similarities.copy_(torch.from_numpy(similarities))
        model.popularity.copy_(
            torch.from_numpy((events.weighted_popularity / len(events)).astype(np.float32))
        )
        return model.eval()
