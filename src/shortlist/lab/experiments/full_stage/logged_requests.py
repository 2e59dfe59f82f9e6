"""Requests of a funnel over the grids of a world, with all candidates: what a full-stage log would hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from shortlist.lab.experiments.full_stage.grids import Grid, Grids
from shortlist.lab.experiments.full_stage.sizes import Size
from shortlist.simulate.full_stage.live_funnel import live_funnel
from shortlist.simulate.full_stage.pools import Score

STRENGTH = 1.5  # of utilities in retrieval that is biased towards them


@dataclass(frozen=True, eq=False)
class StageRows:
    """The candidates of requests [n]; time goes up with the request."""

    request: Grid
    user: Grid
    item: Grid
    reached: Grid  # S: 1 dropped by pre-ranking, 2 by ranking, 3 shown


def uniform(grids: Grids, users: Grid, rng: np.random.Generator) -> Grid:
    """Retrieval that draws items of the pool at random [R, I]."""
    return rng.random((len(users), grids.n_items))


def interest(grids: Grids, users: Grid, rng: np.random.Generator) -> Grid:
    """Retrieval that prefers items with a high utility: Gumbel noise on logits [R, I]."""
    chance = np.clip(grids.utility[users].astype(np.float64), 1e-6, 1 - 1e-6)
    return STRENGTH * np.log(chance / (1 - chance)) + rng.gumbel(size=chance.shape)


LOGGING: Mapping[str, Callable[[Grids, Grid, np.random.Generator], Grid]] = {
    "uniform": uniform,
    "interest": interest,
}


def logged_rows(grids: Grids, size: Size, logging: str, requests: int, seed: int) -> StageRows:
    """Requests of random users; retrieval returns items of their pools only."""
    rng = np.random.default_rng([seed, 43])
    users = rng.integers(0, grids.n_users, requests)
    retrieval = np.where(grids.in_pool[users], LOGGING[logging](grids, users, rng), -np.inf)
    stages = [_table(retrieval), _table(grids.prerank[users]), _table(grids.rank[users])]
    reached = live_funnel(np.arange(requests), grids.n_items, stages, size.wide).stages_reached(grids.n_items)
    reached[~grids.in_pool[users]] = 0  # a pool may be smaller than a request
    request, item = np.nonzero(reached)
    return StageRows(request, users[request], item, reached[request, item].astype(np.int64))


def _table(values: Grid) -> Score:
    """A stage whose scores are read from a table [R, I]."""
    return lambda rows, items: np.take_along_axis(
        values[rows], np.broadcast_to(items, (len(rows), items.shape[-1])), axis=1
    )
