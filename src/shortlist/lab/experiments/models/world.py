"""How hard the simulated demo world is: simple systems between random scores and the true affinities."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Dataset, Interactions, Query, Split
from shortlist.errors import ConfigError
from shortlist.evaluate.full_catalog import ScoreBlock, evaluate_full
from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.claims import better
from shortlist.lab.experiments.linear_scores import cosine, linear
from shortlist.lab.result import Result, result, row, start
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate import World, make_world, simulate_log
from shortlist.simulate.embedded import SIZES
from shortlist.train.context import DAY
from shortlist.train.models.counting.ease import EASETrainer

METRICS = ("recall@20", "ndcg@20")
ORDER = ("random", "popularity", "item neighbours", "truth")  # each should clearly beat the previous one
RIDGE = 200.0  # of EASE, the linear autoencoder; set once, not tuned


def demo_world(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """A new world, log and split per seed; all systems are evaluated on the same users. `data` is not needed."""
    began = start()
    size = {"quick": "small", "full": "demo"}.get(profile)
    if size is None:
        raise ConfigError(f"demo-world: expected the profile quick or full, got {profile!r}")
    found: dict[str, list[Scores]] = {}
    for seed in tracked(seeds, "demo-world", progress):
        for name, scores in _scored(size, seed).items():
            found.setdefault(name, []).append(scores)
    rows = [
        row(name, metric, [float(one[metric].nanmean()) for one in runs])
        for name, runs in found.items()
        for metric in METRICS
    ]
    claims = [
        better(f"{upper} > {lower}", list(zip(found[upper], found[lower], strict=True)), seeds)
        for lower, upper in pairwise(ORDER)
    ]
    settings = {"linear autoencoder": EASETrainer(ridge=RIDGE).settings()}
    return result("demo-world", profile, seeds, began, rows, claims, settings=settings)


def _scored(size: str, seed: int) -> dict[str, Scores]:
    n_users, n_items, n_categories, n_events = SIZES[size]
    world = make_world(n_users, n_items, n_categories, seed)
    dataset = simulate_log(world, n_events, seed)
    split = dataset.split(seed=seed)
    systems = _systems(world, dataset, split, seed)
    return {name: evaluate_full(one, split.test, n_items, (20,)) for name, one in systems.items()}


def _systems(world: World, dataset: Dataset, split: Split, seed: int) -> dict[str, ScoreBlock]:
    """Functions that score a block of items for requests [B, n]."""
    train, generator = split.train, torch.Generator().manual_seed(seed)
    random = torch.rand(len(dataset.items), generator=generator)
    interactions = torch.from_numpy(train.matrix().toarray())  # [U, N]

    def truth(query: Query, items: slice) -> Tensor:
        rows = np.broadcast_to(np.arange(len(dataset.items))[items], (len(query), items.stop - items.start))
        return torch.from_numpy(np.asarray(world.affinity(query.user.numpy(), rows, query.time.numpy())))

    return {
        "random": lambda query, items: random[items].expand(len(query), -1),
        "popularity": lambda query, items: interactions.sum(0)[items].expand(len(query), -1),
        "popularity, 30 days": lambda query, items: _recent_counts(train, query)[:, items],
        "item neighbours": linear(cosine(interactions)),
        "linear autoencoder": linear(EASETrainer(ridge=RIDGE).learn(train).weights),
        "truth": truth,
    }


def _recent_counts(train: Interactions, query: Query) -> Tensor:
    """Events per item in the 30 days before each request [B, N]."""
    ago = query.time[:, None] - torch.from_numpy(train.times.copy())  # [B, E]
    inside = ((ago > 0) & (ago < 30 * DAY)).to(torch.float32)
    items = torch.from_numpy(train.items.astype(np.int64)).expand(inside.shape)
    return torch.zeros(len(query), train.n_items).scatter_add_(1, items, inside)
