"""A small log of users with cyclic histories that every method fits in a second."""

from dataclasses import replace

import numpy as np
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet

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
    "instances_per_item": 20,
}


def cyclic_events(n_items: int = 40, users: int = 32, length: int = 14, seed: int = 0) -> Interactions:
    """Four groups of users, each cycling through its own quarter of the items, with 10 % random events."""
    random = np.random.default_rng(seed)
    quarter = n_items // 4
    positions = random.integers(0, quarter, (users, 1)) + np.arange(length)  # [U, length]
    items = positions % quarter + quarter * (np.arange(users)[:, None] % 4)
    noise = random.random(items.shape) < 0.1
    items = np.where(noise, random.integers(0, n_items, items.shape), items)
    return Interactions.of(np.repeat(np.arange(users), length), items.ravel(), n_items=n_items)


def held_out(events: Interactions, last: int = 8) -> tuple[Interactions, HeldOut]:
    """The events of all but the last users, and the last users held out, cut in the middle."""
    users = np.arange(events.n_users - last, events.n_users)
    starts, stops = events.starts[users], events.starts[users + 1]
    return events.where(events.users < users[0]), HeldOut(events, starts, (starts + stops) // 2, stops)


def next_item_scores(histories: torch.Tensor, n_items: int = 40) -> torch.Tensor:
    """An estimator: the next item of the cycle first, then those near it."""
    quarter, last = n_items // 4, histories[:, -1:]
    after = (last + 1) % quarter + last // quarter * quarter
    return -(torch.arange(n_items) - after).abs().float()


def training_set(n_items: int = 40, **given: object) -> TreeTrainingSet:
    events, valid = held_out(cyclic_events(n_items))
    categories = torch.arange(n_items) // (n_items // 4)
    full = TreeTrainingSet(
        events, categories, valid=valid, estimator=lambda rows: next_item_scores(rows, n_items)
    )
    return replace(full, **given)


def plan(method: str = "dtr-t", profile: str = "sound", **given: object) -> TreePlan:
    return plan_of(method, profile, **{**SIZES, **given})


def training(
    method: str = "dtr-t",
    profile: str = "sound",
    seed: int = 0,
    folder=None,
    checkpoint_every=0,
    data=None,
    **given,
) -> TreeTraining:
    return TreeTraining(
        plan(method, profile, **given),
        data or training_set(),
        seed,
        "cpu",
        folder=folder,
        checkpoint_every=checkpoint_every,
    )


def everything(one: TreeTraining) -> dict[str, torch.Tensor]:
    """All tensors of the training state and of the chosen index."""
    state, chosen = one.state, one.chosen()
    parts = {
        "now": state.index.tensors(),
        "optimizer": state.optimizer.tensors(),
        "best": state.best,
        "chosen": chosen.tensors(),
        "": {"losses": state.losses, "version": torch.tensor(state.index.tree.version)},
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
    """A tree over n items in a random order, with an untrained scorer."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    tree = grow(order, n, branch, spare)
    sizes = {"width": 8, "hidden": 6, "layers": (12,), "windows": (3, 2, 1), "spread": 1.0}
    rows = n_rows(tree.shape, n, leaf_vectors)
    return TreeIndex(tree, make_scorer(ScorerConfig(rows, n, **{**sizes, **config}), seed), leaf_vectors)
