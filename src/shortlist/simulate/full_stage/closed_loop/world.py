"""World A for a closed loop: scores of all stages and utilities of every cell (user, item), as tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.pools import Score
from shortlist.simulate.full_stage.short_video import ShortVideoWorld, user_blocks
from shortlist.simulate.full_stage.stage_models import StageModelConfig
from shortlist.simulate.full_stage.train_stage_models import (
    LabelledCells,
    exposed_cells,
    fit_stage_models,
)
from shortlist.simulate.full_stage.video_features import item_features, user_features

OTHER = 104_729  # added to a seed for another model of the same data
STAGE_SCORES = ("prerank", "rank", "rank_seed", "rank_label", "rerank")
GRIDS = (*STAGE_SCORES, "utility", "policy")
CHANNEL_NAMES = ("trained", "popular", "policy", "recent", "long")


@dataclass(frozen=True, eq=False)
class LoopWorld:
    """Users of the dense block x the whole catalogue [U, I], on one device.

    `rank_seed` and `rank_label` are rank models that may replace `rank`: of another seed, and of another label (a watch
    ratio of at least 1). `policy` is the score of an older system.
    """

    prerank: Tensor
    rank: Tensor
    rank_seed: Tensor
    rank_label: Tensor
    rerank: Tensor
    utility: Tensor  # r
    policy: Tensor
    log_duration: Tensor  # [I]
    popularity: Tensor  # [I]
    age: Tensor  # [I]
    seed: int = 0

    @property
    def n_users(self) -> int:
        return int(self.utility.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.utility.shape[1])

    @property
    def device(self) -> torch.device:
        return self.utility.device

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], seed: int, device: torch.device) -> "LoopWorld":
        """From the arrays of `loop_arrays`."""
        return cls(**{name: torch.from_numpy(one).to(device) for name, one in arrays.items()}, seed=seed)

    def rank_scores(self, settings: LoopSettings, number: int) -> Tensor:
        """The scores of the rank stage in a round [U, I]."""
        changed = settings.drifted(number)
        models = {"seed": self.rank_seed, "label": self.rank_label}
        model = models.get(settings.drift, self.rank) if changed else self.rank
        beta = settings.drift_beta if changed and settings.drift == "beta" else settings.beta
        return model + beta * self.log_duration

    def channel_scores(self) -> tuple[Tensor, ...]:
        """The scores of the four fixed channels, [I] or [U, I]: popular, older policy, recent, long."""
        return self.popularity, self.policy, -self.age, self.log_duration


def loop_arrays(
    world: ShortVideoWorld, config: StageModelConfig | None = None, seed: int = 0, device: str = "auto"
) -> dict[str, NDArray[Any]]:
    """Train all stage models on the big matrix and score the users of the dense block.

    Pre-rank and rank models share a training, the others are trained with other seeds or labels.
    """
    cells = exposed_cells(world, np.arange(world.n_users), config.max_cells if config else 0, seed)
    first = _models(world, cells, config, seed, device)
    again = _models(world, cells, config, seed + OTHER, device)
    last = _models(world, cells, config, seed + 2 * OTHER, device)
    other = _models(world, _completed(world, cells), config, seed, device)
    scores: dict[str, Score] = {
        "prerank": first.prerank,
        "rank": first.rank,
        "rank_seed": again.rank,
        "rank_label": other.rank,
        "rerank": last.rank,
        "utility": world.r,
        "policy": world.raw_policy,
    }
    users = np.arange(world.shape.block_users)
    grids = {name: _whole(one, users, world.n_items) for name, one in scores.items()}
    videos = world.videos
    return grids | {
        "log_duration": videos.log_duration,
        "popularity": videos.log_popularity,
        "age": videos.age,
    }


def _models(
    world: ShortVideoWorld, cells: LabelledCells, config: StageModelConfig | None, seed: int, device: str
) -> Any:
    return fit_stage_models(cells, user_features(world), item_features(world), config, seed, device=device)


def _completed(world: ShortVideoWorld, cells: LabelledCells) -> LabelledCells:
    """The same cells with another label: watched to the end."""
    step = 1 << 16
    parts = [
        world.watch_ratio(cells.users[at : at + step], cells.items[at : at + step, None])[:, 0] >= 1
        for at in range(0, len(cells), step)
    ]
    return LabelledCells(cells.users, cells.items, np.concatenate(parts))


def _whole(score: Score, users: NDArray[np.int64], n_items: int) -> NDArray[np.float32]:
    parts = [score(block, np.arange(n_items)) for block in user_blocks(users, n_items)]
    return np.ascontiguousarray(np.concatenate(parts), np.float32)
