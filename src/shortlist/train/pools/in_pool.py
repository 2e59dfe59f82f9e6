"""The trainer of a nominator in a pool: both come from stages before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.grammar import Nominator
from shortlist.nominate import InPool
from shortlist.nominate.pools import Pools
from shortlist.train.context import TrainContext
from shortlist.train.preparation.pools_file import read_pool


@dataclass(frozen=True)
class InPoolTrainer:
    """Restricts the stage `by` to a pool of the stage or file `pools`; nothing is learned."""

    uses_weights: ClassVar[bool | None] = None

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> InPool:
        by, source = str(settings.get("by", "")), str(settings.get("pools", ""))
        inner = context.fitted.get(by)
        if not isinstance(inner, Nominator):
            raise ConfigError(
                f"by: expected the name of a nominator before this stage in the recipe, got {by!r}"
            )
        return InPool(inner, self._pool(settings, source, context), **settings)

    def _pool(self, settings: Mapping[str, Any], source: str, context: TrainContext) -> Tensor:
        if source not in context.fitted:
            if not source:
                raise ConfigError(
                    "pools: expected a stage before this one that has pools, or a file; got none"
                )
            return torch.from_numpy(
                read_pool(Path(source), str(settings["name"]), context.catalog.vocabulary)[0]
            )
        pools = getattr(context.fitted[source], "pools", None)
        if not isinstance(pools, Pools):
            raise ConfigError(
                f'pools: {source!r} has no item pools; train it with allocation = "distilled" or "random"'
            )
        number = int(settings.get("number", InPool.number))
        if number >= pools.n_nominators:
            raise ConfigError(
                f"number: {source!r} has {pools.n_nominators} pools, got {number}; count from 0"
            )
        return torch.from_numpy(pools.matrix[number].copy())
