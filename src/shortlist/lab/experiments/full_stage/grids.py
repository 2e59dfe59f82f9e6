"""Everything about the cells (user, item) of one world and seed: the scores of its stages, utilities and labels."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.lab.experiments.full_stage.sizes import MOVIELENS, SIZES, Size
from shortlist.simulate.full_stage.cell_noise import Rows, cell_uniforms
from shortlist.simulate.full_stage.make_short_video import make_short_video
from shortlist.simulate.full_stage.pools import Pools, Score, exposed_pools
from shortlist.simulate.full_stage.ratings.movielens import LIKED, MovieLensWorld, movielens_world
from shortlist.simulate.full_stage.short_video import ShortVideoWorld, user_blocks
from shortlist.simulate.full_stage.static_requests import ScoredPools
from shortlist.simulate.full_stage.train_stage_models import (
    LabelledCells,
    StageModels,
    fit_stage_models,
    train_stage_models,
)

OTHER = 7919  # added to the seed of World B for its stage models and pools
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
    observed: Grid  # bool, cells with real feedback; without any cells in a simulated world

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
    users = np.arange(world.shape.block_users)
    pools = exposed_pools(world, users)
    in_pool = np.zeros((len(users), world.n_items), bool)
    in_pool[pools.users, pools.item] = True
    return _grids(models, world, users, in_pool, np.zeros((0, 0), bool))


def movielens_grids(size: Size, seed: int, data: Path, device: str = "auto") -> Grids:
    """World B: stage models trained on the ratings score the users with the most ratings.

    The pool of a user has the rated items and a random share of the others. Stage models have another architecture
    and another seed than the models that completed the ratings.
    """
    world = movielens_world(data / size.shape, seed)
    ratings = world.ratings
    cells = LabelledCells(ratings.users, ratings.items, ratings.values >= LIKED)
    features = ratings.user_attributes, ratings.item_attributes
    models = fit_stage_models(cells, *features, size.stages, seed + OTHER, device=device)
    users = np.sort(np.argsort(-np.bincount(ratings.users), kind="stable")[: size.users])
    observed = _whole(world.observed, users, world.n_items)
    drawn = _whole(partial(cell_uniforms, seed + OTHER, 0), users, world.n_items) < size.pool_share
    return _grids(models, world, users, observed | drawn, observed)


def _grids(
    models: StageModels, world: ShortVideoWorld | MovieLensWorld, users: Rows, in_pool: Grid, observed: Grid
) -> Grids:
    cells: tuple[Score, ...] = (models.prerank, models.rank, world.r, world.labels)
    prerank, rank, utility, label = (_whole(one, users, world.n_items) for one in cells)
    measured = np.array([models.prerank_auc, models.rank_auc])
    return Grids(prerank, rank, utility, label, in_pool, measured, observed)


def _whole(cells: Score, users: Rows, n_items: int) -> Grid:
    """Values of all items for the users [U, I], computed in blocks."""
    return np.concatenate([cells(part, np.arange(n_items)) for part in user_blocks(users, n_items)])


def grids_of(world: str, seed: int, folder: Path, device: str = "auto", data: Path | None = None) -> Grids:
    """The grids of a world, built once per seed: other cells and processes read them from `folder`.

    World B needs `data`, the folder of the real data sets.
    """
    size = SIZES[world]
    path = folder / f"{world}-{seed}-{digest(size)}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{np.random.default_rng().integers(1 << 62):x}")
        built = (
            movielens_grids(size, seed, _known(data), device)
            if world == MOVIELENS
            else short_video_grids(size, seed, device)
        )
        save_file(vars(built), draft)
        draft.replace(path)  # of several processes that build the same grids the last one wins
    return Grids(**load_file(path))


def _known(data: Path | None) -> Path:
    if data is None:
        raise ConfigError(f"{MOVIELENS}: needs --data, a folder that holds {SIZES[MOVIELENS].shape}")
    return data


def digest(size: Size) -> str:
    """Names what decides the grids of a size: its budget does not."""
    plain = {key: value for key, value in asdict(size).items() if key != "budget"}
    return hashlib.sha256(json.dumps(as_json(plain), sort_keys=True).encode()).hexdigest()[:12]
