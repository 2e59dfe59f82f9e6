"""What is measured of a funnel: every user of the world is served once, and the true utilities are known."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.grammar import Pipeline
from shortlist.metrics.coverage import coverage, gini
from shortlist.metrics.funnel.stage_metrics import utility_lost
from shortlist.pipeline import Trace, run
from shortlist.simulate.full_stage.closed_loop.measures import COVERAGE, GINI, LOST
from shortlist.simulate.full_stage.logged import ServedWorld, SimulationSettings
from shortlist.simulate.full_stage.logged.requests import BATCH, Queries, feedback

LIKED = "liked per slot"  # expected, by the true utilities
DRAWN = "drawn likes per shown item"
BEST = "best per slot"  # of the whole catalogue
SAME = "best per slot, one slate for all"  # what can be reached without knowing the user
FIRST = 1 << 40  # number of the first measured request: its feedback is in no log


def measured(
    world: ServedWorld, settings: SimulationSettings, pipeline: Pipeline, queries: Queries
) -> dict[str, float]:
    """Means over all users; what the stages lose adds up to the best utility minus that of the shown items."""
    slots, counts, slates, best = settings.capacities[-1], np.zeros(2), list[Tensor](), list[Tensor]()
    total = torch.zeros(world.n_items, dtype=torch.float64)
    for users, trace in _served(world, pipeline, queries):
        utility = torch.from_numpy(world.utility(users, np.arange(world.n_items)))
        total += utility.double().sum(0)
        best.append(_best(utility, trace, slots))
        slates.append(_slate(trace, slots))
        none = np.zeros_like(users)
        counts += feedback(world, settings, trace, FIRST + users, users, none, none)[1]
    means, shown = torch.cat(best).mean(0) / slots, torch.cat(slates)
    return {
        LIKED: float(means[-1]),
        DRAWN: float(counts[1] / max(counts[0], 1)),
        BEST: float(means[0]),
        SAME: float(total.topk(slots).values.mean() / world.n_users),
        **{name: float(means[stage - 1] - means[stage]) for stage, name in LOST.items()},
        COVERAGE: coverage(shown, world.n_items, slots),
        GINI: gini(shown, world.n_items, slots),
    }


def _served(
    world: ServedWorld, pipeline: Pipeline, queries: Queries
) -> Iterator[tuple[NDArray[np.int64], Trace]]:
    seeds = np.random.default_rng([world.seed, 45]).integers(1 << 62, size=world.n_users)
    for start in range(0, world.n_users, BATCH):
        users = np.arange(start, min(start + BATCH, world.n_users))
        yield users, run(pipeline, queries(users, seeds[users])).trace


def _best(utility: Tensor, trace: Trace, slots: int) -> Tensor:
    """The best utility of the slots in the catalogue [B, I] and after every stage [B, T + 1]."""
    n_items = utility.shape[1]
    reached = torch.zeros((len(utility), n_items + 1), dtype=torch.int64)  # the last column: empty places
    for stage, step in enumerate(trace.steps, start=1):
        reached.scatter_(1, step.after.items.masked_fill(~step.after.valid, n_items), stage)
    return utility_lost(utility, reached[:, :-1], len(trace.steps), slots).best


def _slate(trace: Trace, slots: int) -> Tensor:
    """The shown items [B, slots], -1 where there are fewer."""
    last = trace.steps[-1].after
    items = last.items.masked_fill(~last.valid, -1)
    return torch.nn.functional.pad(items, (0, slots - items.shape[1]), value=-1)
