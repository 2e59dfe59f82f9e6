"""How hard the embedded world is: simple systems between chance and the truth, on the whole catalogue."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Dataset, Interactions, Query, Split
from shortlist.errors import ConfigError
from shortlist.evaluate.full_catalog import ScoreBlock, evaluate_full
from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.claims import better
from shortlist.lab.experiments.linear_scores import cosine, linear
from shortlist.lab.result import result, row, start
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate import World, make_world, simulate_log
from shortlist.simulate.embedded import SIZES
from shortlist.train.context import DAY
from shortlist.train.models.ease import EASETrainer

METRICS = ("recall@20", "ndcg@20")
ORDER = ("random", "popularity", "item neighbours", "truth")  # each should clearly beat the one before
RIDGE = 200.0  # of the linear autoencoder; set once, not tuned


def demo_world(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> dict[str, Any]:
    """A new world, log and split for every seed; all systems answer the same users. `data` is not needed."""
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
    return result("demo-world", profile, seeds, began, rows, claims)


def _scored(size: str, seed: int) -> dict[str, Scores]:
    n_users, n_items, n_categories, n_events = SIZES[size]
    world = make_world(n_users, n_items, n_categories, seed)
    dataset = simulate_log(world, n_events, seed)
    split = dataset.split(seed=seed)
    systems = _systems(world, dataset, split, seed)
    return {name: evaluate_full(one, split.test, n_items, (20,)) for name, one in systems.items()}


def _systems(world: World, dataset: Dataset, split: Split, seed: int) -> dict[str, ScoreBlock]:
    """Functions that score a block of items for requests [B, n]."""
    learned, chance = split.train, torch.Generator().manual_seed(seed)
    drawn = torch.rand(len(dataset.items), generator=chance)
    met = torch.from_numpy(learned.matrix().toarray())  # [U, N]

    def truth(query: Query, items: slice) -> Tensor:
        rows = np.broadcast_to(np.arange(len(dataset.items))[items], (len(query), items.stop - items.start))
        return torch.from_numpy(np.asarray(world.affinity(query.user.numpy(), rows, query.time.numpy())))

    return {
        "random": lambda query, items: drawn[items].expand(len(query), -1),
        "popularity": lambda query, items: met.sum(0)[items].expand(len(query), -1),
        "popularity, 30 days": lambda query, items: _recently(learned, query)[:, items],
        "item neighbours": linear(cosine(met)),
        "linear autoencoder": linear(EASETrainer(RIDGE).learn(learned).weights),
        "truth": truth,
    }


def _recently(learned: Interactions, query: Query) -> Tensor:
    """Events per item in the 30 days before each request [B, N]."""
    ago = query.time[:, None] - torch.from_numpy(learned.times.copy())  # [B, E]
    inside = ((ago > 0) & (ago < 30 * DAY)).to(torch.float32)
    items = torch.from_numpy(learned.items.astype(np.int64)).expand(inside.shape)
    return torch.zeros(len(query), learned.n_items).scatter_add_(1, items, inside)
