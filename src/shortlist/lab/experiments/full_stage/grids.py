"""Everything about the cells (user, item) of one world and seed: the scores of its stages, utilities and labels."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from shortlist.artifact.as_json import as_json
from shortlist.lab.experiments.full_stage.sizes import SIZES, Size
from shortlist.simulate.full_stage.live_funnel import Score
from shortlist.simulate.full_stage.make_short_video import make_short_video
from shortlist.simulate.full_stage.pools import Pools, exposed_pools
from shortlist.simulate.full_stage.short_video import user_blocks
from shortlist.simulate.full_stage.static_requests import ScoredPools
from shortlist.simulate.full_stage.train_stage_models import train_stage_models

Grid = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Grids:
    """Cells of the users of the static requests x the whole catalogue [U, I]."""

    prerank: Grid  # float32, score of the pre-rank model
    rank: Grid  # float32, score of the rank model
    utility: Grid  # float32, r: the probability of a positive label
    label: Grid  # bool, Y
    in_pool: Grid  # bool, pre-rank candidates
    auc: Grid  # float64 [2], of the pre-rank and the rank model on held-out exposed cells

    @property
    def n_users(self) -> int:
        return int(self.label.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.label.shape[1])

    def pools(self) -> ScoredPools:
        """The pre-rank candidates of every user with their scores and labels."""
        users, items = np.nonzero(self.in_pool)
        offsets = np.concatenate([[0], np.cumsum(self.in_pool.sum(axis=1))])
        pools = Pools(np.arange(self.n_users), items, offsets)
        return ScoredPools(
            pools, self.prerank[users, items], self.rank[users, items], self.label[users, items]
        )


def short_video_grids(size: Size, seed: int, device: str = "auto") -> Grids:
    """World A: stage models trained on its big matrix score the users of its dense block."""
    world = make_short_video(size.shape, seed, size.watch)
    models = train_stage_models(world, size.stages, seed, device=device)
    users, items = np.arange(world.shape.block_users), np.arange(world.n_items)

    def whole(cells: Callable[..., Grid]) -> Grid:
        return np.concatenate([cells(part, items) for part in user_blocks(users, world.n_items)])

    pools = exposed_pools(world, users)
    in_pool = np.zeros((len(users), world.n_items), bool)
    in_pool[pools.users, pools.item] = True
    measured = np.array([models.prerank_auc, models.rank_auc])
    scores: list[Score] = [models.prerank, models.rank, world.r]
    return Grids(*map(whole, scores), whole(world.labels), in_pool, measured)


def grids_of(world: str, seed: int, folder: Path, device: str = "auto") -> Grids:
    """The grids of a world, built once per seed: other cells and processes read them from `folder`."""
    size = SIZES[world]
    path = folder / f"{world}-{seed}-{digest(size)}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{np.random.default_rng().integers(1 << 62):x}")
        save_file(vars(short_video_grids(size, seed, device)), draft)
        draft.replace(path)  # of several processes that build the same grids the last one wins
    return Grids(**load_file(path))


def digest(size: Size) -> str:
    """Names what decides the grids of a size: its budget does not."""
    plain = {key: value for key, value in asdict(size).items() if key != "budget"}
    return hashlib.sha256(json.dumps(as_json(plain), sort_keys=True).encode()).hexdigest()[:12]
