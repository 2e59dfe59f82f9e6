"""Serve the requests of one round: all channels and stages, as a trace that the logger accepts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.pipeline.trace import Part, Step, Trace
from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.closed_loop.world import CHANNEL_NAMES, LoopWorld

STAGE_NAMES = ("retrieval", "pre-rank", "rank", "re-rank")
EXPLORE = "random"


@dataclass(frozen=True, eq=False)
class Served:
    """What one round did: the trace of its requests and the scores of every stage [U, I]."""

    number: int
    users: Tensor  # [N] rows
    trace: Trace
    scores: Mapping[int, Tensor]  # by stage, from 1

    @property
    def shown(self) -> Tensor:
        """The items of the final slots [N, c], best first."""
        return self.trace.steps[-1].after.items

    def kept(self, stage: int) -> Candidates:
        """The candidates after a stage, from 1."""
        return self.trace.steps[stage - 1].after


def serve(world: LoopWorld, settings: LoopSettings, scores: Mapping[int, Tensor], number: int) -> Served:
    """Serve the requests of round `number`; ties go to the lower item."""
    return serve_users(world, settings, scores, number, request_users(world, settings, number))


def serve_users(
    world: LoopWorld, settings: LoopSettings, scores: Mapping[int, Tensor], number: int, users: Tensor
) -> Served:
    """Serve one request of each of these users [N]."""
    found = nominated(world, settings, scores[1][users], users, number)
    names = [name.removesuffix(".rank") for name in found.columns]
    parts = tuple(Part(name, 0.0, found.keep(~found.columns[f"{name}.rank"].isnan())) for name in names)
    steps = [Step(STAGE_NAMES[0], "nominator", 0.0, found, found, found, (), parts)]
    for stage, capacity in enumerate(settings.capacities[1:], start=2):
        steps.append(_step(steps[-1].after, scores[stage][users], stage, capacity))
    query = _query(users, world.seed, number)
    return Served(number, users, Trace(tuple(steps), query).check(), scores)


def request_users(world: LoopWorld, settings: LoopSettings, number: int) -> Tensor:
    """The user of every request: permutations of all users, the same for every arm."""
    rng = np.random.default_rng([world.seed, 31, number + settings.warm])
    count = settings.requests or world.n_users
    order = [rng.permutation(world.n_users) for _ in range(-(-count // world.n_users))]
    return torch.from_numpy(np.concatenate(order)[:count]).to(world.device)


def nominated(
    world: LoopWorld, settings: LoopSettings, own: Tensor, users: Tensor, number: int
) -> Candidates:
    """The union of all channels, items ascending, with the scores `own` [N, I] of the trained channel.

    Column NAME.rank is the rank of an item in a channel, NaN where the channel did not return it.
    """
    fixed = world.channel_scores()[: settings.channels - 1]
    every = [own, *(one.expand_as(own) if one.ndim == 1 else one[users] for one in fixed)]
    tops = [top(scores, size) for scores, size in zip(every, settings.channel_sizes, strict=True)]
    names = [*CHANNEL_NAMES[: settings.channels]]
    if settings.n_random:
        tops.append(_random_items(world, settings, len(users), number))
        names.append(EXPLORE)
    return _union(own, tops, names)


def top(scores: Tensor, count: int) -> Tensor:
    """The items with the highest scores [N, I] -> [N, count], ties by item ascending."""
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :count]


def _union(own: Tensor, tops: Sequence[Tensor], names: Sequence[str]) -> Candidates:
    ranks = [_ranks(own, items) for items in tops]
    rows, items = torch.stack([~one.isnan() for one in ranks]).any(0).nonzero(as_tuple=True)
    counts = rows.bincount(minlength=len(own))
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    padded = items.new_full((len(own), int(counts.max())), -1)
    padded[rows, place] = items
    at = padded.clamp(min=0)
    columns = {
        f"{name}.rank": one.gather(1, at).masked_fill(padded < 0, torch.nan)
        for name, one in zip(names, ranks, strict=True)
    }
    return Candidates.of(padded, own.gather(1, at), columns)


def _ranks(like: Tensor, items: Tensor) -> Tensor:
    """Ranks from 0 of these items [N, k] in the grid of all items [N, I], NaN elsewhere."""
    ranks = torch.arange(items.shape[1], device=items.device, dtype=like.dtype).expand_as(items)
    return torch.full_like(like, torch.nan).scatter(1, items, ranks)


def _random_items(world: LoopWorld, settings: LoopSettings, count: int, number: int) -> Tensor:
    """Random items of every request [N, k]: the same for every arm; an item may repeat."""
    rng = np.random.default_rng([world.seed, 32, number + settings.warm])
    drawn = rng.integers(0, world.n_items, (count, settings.n_random))
    return torch.from_numpy(drawn).to(world.device)


def _step(before: Candidates, scores: Tensor, stage: int, capacity: int) -> Step:
    """A stage that scores its input and keeps the best; all but the last pass them on by item."""
    name = STAGE_NAMES[stage - 1]
    scored = before.score(scores.gather(1, before.items.clamp(min=0)))
    after = scored.best(capacity)
    if stage < len(STAGE_NAMES):
        after = after.take(after.items.argsort(dim=1))
    return Step(name, "scorer", 0.0, before, scored, after)


def _query(users: Tensor, seed: int, number: int) -> Query:
    rows = users.cpu()
    rng = np.random.default_rng([seed, 33, number + 1000])
    seeds = torch.from_numpy(rng.integers(0, 1 << 62, len(rows)))
    return Query(rows, torch.full((len(rows), 1), -1), torch.full_like(rows, number), seeds)
