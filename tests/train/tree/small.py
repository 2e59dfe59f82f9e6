"""A log of people who walk in circles, small enough that every method learns it in a second."""

from dataclasses import replace

import numpy as np
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.training import TreeTraining, TreeTrainingSet

SIZES = {
    "width": 8,
    "hidden": 6,
    "layers": (12,),
    "windows": (3, 2, 1),
    "min_history": 2,
    "negatives": 4,
    "beam": 6,
    "rounds": 2,
    "steps": 5,
    "batch_size": 32,
    "eval_every": 5,
    "warmup": 2,
    "learning_rate": 1e-2,
    "cap": 20,
}


def walks(n_items: int = 40, users: int = 32, length: int = 14, seed: int = 0) -> Interactions:
    """Users of four kinds, each kind with a quarter of the items that its users walk around, now and then a slip."""
    random = np.random.default_rng(seed)
    quarter = n_items // 4
    places = random.integers(0, quarter, (users, 1)) + np.arange(length)  # [U, length]
    items = places % quarter + quarter * (np.arange(users)[:, None] % 4)
    slips = random.random(items.shape) < 0.1
    items = np.where(slips, random.integers(0, n_items, items.shape), items)
    return Interactions.of(np.repeat(np.arange(users), length), items.ravel(), n_items=n_items)


def held_out(events: Interactions, last: int = 8) -> tuple[Interactions, HeldOut]:
    """The events of all but the last users, and theirs as cases cut in the middle."""
    users = np.arange(events.n_users - last, events.n_users)
    starts, stops = events.starts[users], events.starts[users + 1]
    cases = HeldOut(events, starts, (starts + stops) // 2, stops)
    return events.where(events.users < users[0]), cases


def likely(histories: torch.Tensor, n_items: int = 40) -> torch.Tensor:
    """An estimator: the item after the last, then those near it."""
    quarter, last = n_items // 4, histories[:, -1:]
    after = (last + 1) % quarter + last // quarter * quarter
    return -(torch.arange(n_items) - after).abs().float()


def lesson(n_items: int = 40, **given: object) -> TreeTrainingSet:
    events, cases = held_out(walks(n_items))
    categories = torch.arange(n_items) // (n_items // 4)
    made = TreeTrainingSet(events, categories, valid=cases, estimator=lambda rows: likely(rows, n_items))
    return replace(made, **given)


def plan(method: str = "dtr-t", profile: str = "sound", **given: object) -> TreePlan:
    return plan_of(method, profile, **{**SIZES, **given})


def training(
    method: str = "dtr-t",
    profile: str = "sound",
    seed: int = 0,
    folder=None,
    keep_every=0,
    taught=None,
    **given,
) -> TreeTraining:
    return TreeTraining(
        plan(method, profile, **given), taught or lesson(), seed, "cpu", folder=folder, keep_every=keep_every
    )


def everything(one: TreeTraining) -> dict[str, torch.Tensor]:
    """All numbers where training stands, and those of what it would choose."""
    standing, chosen = one.standing, one.chosen()
    parts = {
        "now": standing.index.tensors(),
        "optimiser": standing.optimiser.tensors(),
        "best": standing.best,
        "chosen": chosen.tensors(),
        "": {"losses": standing.losses, "version": torch.tensor(standing.index.tree.version)},
    }
    return {f"{name}.{what}": one for name, part in parts.items() for what, one in part.items()}


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Whether all bytes are equal."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def small_index(
    n: int = 30,
    branch: int = 2,
    leaf_vectors: str = "slot",
    seed: int = 0,
    spare: float = 0.0,
    **config: object,
) -> TreeIndex:
    """A tree over n items in a random order, with a scorer that was taught nothing."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    tree = grow(order, n, branch, spare)
    sizes = {"width": 8, "hidden": 6, "layers": (12,), "windows": (3, 2, 1), "spread": 1.0}
    rows = n_rows(tree.shape, n, leaf_vectors)
    return TreeIndex(tree, make_scorer(ScorerConfig(rows, n, **{**sizes, **config}), seed), leaf_vectors)
