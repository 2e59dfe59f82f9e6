"""The funnel of a simulated service: two nominators and random items, then three scorers, each with an error."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Nominator, Pipeline, Scorer, as_pipeline
from shortlist.nominate import Popular
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.cell_noise import Floats, Rows, cell_normals
from shortlist.simulate.full_stage.live_funnel import top_items
from shortlist.simulate.full_stage.logged.settings import STAGES, SimulationSettings
from shortlist.simulate.full_stage.logged.world import ServedWorld
from shortlist.simulate.full_stage.short_video import user_blocks

NOISE = 50  # first stream of the cell noise, one per stage
EDGE = 1e-4  # utilities are kept this far from 0 and 1
OWN_SHARE = 0.7  # of the retrieved items that are not random; the rest are popular


@dataclass(frozen=True, eq=False, repr=False)
class StoredTop(Nominator):
    """The best items of every user, computed before: `items` and `values` [U, K]."""

    items: Tensor
    values: Tensor

    def nominate(self, query: Query) -> Candidates:
        rows = query.user
        return Candidates.of(self.items[rows, : self.limit].long(), self.values[rows, : self.limit])


@dataclass(frozen=True, eq=False, repr=False)
class RandomItems(Nominator):
    """Random items of the catalogue, from the seed of each request; an item may repeat."""

    n_items: int

    def nominate(self, query: Query) -> Candidates:
        rows = [
            np.random.default_rng(abs(seed)).integers(self.n_items, size=self.limit)
            for seed in query.seed.tolist()
        ]
        items = torch.from_numpy(np.stack(rows))
        return Candidates.of(items, torch.zeros(items.shape))


@dataclass(frozen=True, eq=False, repr=False)
class NoisyUtility(Scorer):
    """The utility in logits plus an error that is fixed for every user and item."""

    world: ServedWorld
    noise: float
    stage: int

    def score(self, query: Query, found: Candidates) -> Tensor:
        scores = noisy_utility(
            self.world, self.noise, self.stage, query.user.numpy(), found.items.clamp(min=0).numpy()
        )
        return torch.from_numpy(scores)


def noisy_utility(world: ServedWorld, noise: float, stage: int, users: Rows, items: Rows) -> Floats:
    """Scores of a stage [B, K]."""
    utility = np.clip(world.utility(users, items), EDGE, 1 - EDGE)
    error = noise * cell_normals(world.seed, NOISE + stage, users, items) if noise else 0.0
    return np.asarray(np.log(utility / (1 - utility)) + error, np.float32)


def world_pipeline(world: ServedWorld, settings: SimulationSettings, progress: Progress = silent) -> Pipeline:
    """The pipeline that serves a world; the retrieval of all users is computed here, in blocks."""
    first, *rest = (min(one, world.n_items) for one in settings.capacities)
    n_random = round(settings.random * first)
    own = max(round(OWN_SHARE * (first - n_random)), 1)
    popularity = torch.from_numpy(world.data.events.popularity.astype(np.float32))
    order = popularity.argsort(descending=True, stable=True)
    pool = _stored(world, settings.noise[0], own, progress) + Popular(
        order,
        popularity[order] / popularity.sum().clamp(min=1),
        name="popular",
        limit=max(first - n_random - own, 1),
    )
    if n_random:
        pool = pool + RandomItems(world.n_items, name="random", limit=n_random)
    made = as_pipeline(pool)
    for stage, capacity in enumerate(rest, start=1):
        made = made >> NoisyUtility(world, settings.noise[stage], stage, name=STAGES[stage]) % capacity
    return made


def _stored(world: ServedWorld, noise: float, limit: int, progress: Progress) -> StoredTop:
    """The top of the first stage for every user [U, limit]."""
    catalogue, items, values, done = np.arange(world.n_items), list[Rows](), list[Floats](), 0
    for block in user_blocks(np.arange(world.n_users), world.n_items):
        scores = noisy_utility(world, noise, 0, block, catalogue)
        best = top_items(catalogue, scores, limit)
        items.append(best.astype(np.int32))
        values.append(np.take_along_axis(scores, best, axis=1))
        done += len(block)
        progress("retrieval", done, world.n_users)
    both = (torch.from_numpy(np.concatenate(one)) for one in (items, values))
    return StoredTop(*both, name="retrieval", limit=limit)
