"""Uniformly random items: a few slots for every item of the catalogue, with known probabilities."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_distinct, check_shape, check_whole
from shortlist.data import Candidates, Query
from shortlist.grammar import Nominator
from shortlist.nominate.propensity import PROPENSITY

STREAM = 0x51ED270B  # of random numbers, another one than that of other stages
BITS = (1 << 63) - 1


@dataclass(frozen=True, eq=False, repr=False)
class RandomItems(Nominator):
    """Random items, all equally likely; the column `propensity` holds their probability.

    One or two slots in a hundred keep every item in the data of the other nominators, whatever these prefer. The items
    of a request depend on its seed alone.
    """

    items: Tensor  # [A] rows to draw from

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("items", self.items, None)
        check_whole("items", self.items, 0, n_items)
        check_distinct("items", self.items)

    def nominate(self, query: Query) -> Candidates:
        count = min(self.limit, len(self.items))
        at = np.zeros((len(query), count), np.int64)
        for row, seed in enumerate(query.seed.tolist()):
            random = np.random.default_rng((seed & BITS, STREAM))
            at[row] = random.choice(len(self.items), count, replace=False)
        drawn = self.items[torch.from_numpy(at).to(self.items.device)]
        chance = torch.full(drawn.shape, count / max(len(self.items), 1), device=drawn.device)
        return Candidates.of(drawn, torch.zeros_like(chance), {PROPENSITY: chance})

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": torch.zeros(items.shape, device=items.device)}
