"""A linear tree taught as the theorems have it: users are vectors that nobody learns, whole levels, no bias.

What stands for a user is made of vectors of items, and those come from the validation users' events: neither the users
a tree is taught with nor those it is judged by had a part in them. The tree is an order by chance. So all that the
theorems on linear scorers ask for holds, except that windows of one user overlap.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import HeldOut, Interactions, Split
from shortlist.index.tree import TreeIndex, grow, random_order
from shortlist.models.nodes import NormLimits, ScorerConfig, make_scorer, project_
from shortlist.models.nodes.linear import LinearState
from shortlist.train.tree.embedding_init import item_vectors
from shortlist.train.tree.instances import Instances, instances_of


@dataclass(frozen=True)
class LinearPlan:
    """How a linear tree is taught."""

    branch: int = 8
    width: int = 24
    share: float = 1.0  # of the training users
    limit: float | None = None  # on the length of node vectors
    steps: int = 600
    batch_size: int = 1000
    learning_rate: float = 0.05
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)
    min_history: int = 14


@dataclass(frozen=True, eq=False)
class Sample:
    """Some instances, and whose they are."""

    histories: Tensor  # int64 [n, K]
    labels: Tensor  # int64 [n]
    users: Tensor  # int64 [n]


@dataclass(frozen=True, eq=False)
class Sides:
    """The instances of training and test users of one split, drawn alike."""

    split: Split
    max_history: int
    min_history: int
    seed: int
    device: torch.device

    @cached_property
    def train(self) -> Instances:
        return instances_of(self.split.train, self.max_history, self.min_history, "every", self.device)

    @cached_property
    def test(self) -> Instances:
        events = events_of(self.split.test)
        return instances_of(events, self.max_history, self.min_history, "every", self.device)

    def shown(self, share: float) -> Tensor:
        """The instances of a share of the training users, drawn by user; smaller shares are parts of larger ones."""
        users = torch.unique(self.train.starts).cpu()
        order = torch.from_numpy(np.random.default_rng([self.seed, 5]).permutation(len(users)))
        cache = users[order[: max(1, round(share * len(users)))]].to(self.device)
        return torch.nonzero(torch.isin(self.train.starts, cache))[:, 0]

    def sample(self, instances: Instances, rows: Tensor, most: int) -> Sample:
        """At most so many of the instances at `rows`."""
        picked = np.random.default_rng([self.seed, 6]).permutation(len(rows))[:most]
        some = rows[torch.from_numpy(np.sort(picked)).to(rows.device)]
        return Sample(instances.histories(some), instances.targets(some), instances.starts[some])

    def vectors(self, width: int) -> Tensor:
        """A vector of every item, from the validation users alone; its last number is 1, so that popularity fits."""
        events = events_of(self.split.valid)
        vectors = torch.ones(events.n_items, width)
        if width > 1:
            vectors[:, :-1] = item_vectors(events, width - 1, self.seed)
        return vectors


def events_of(cases: HeldOut) -> Interactions:
    """All events of the users of some cases, before and after the cut."""
    return cases.events.where(np.isin(cases.events.users, cases.users))


def teach_linear(plan: LinearPlan, sides: Sides) -> tuple[TreeIndex, Tensor]:
    """The tree after training, and the instances it was shown."""
    index, rows = _begun(plan, sides), sides.shown(plan.share)
    table, limits = index.scorer.nodes.weight, NormLimits(b0=plan.limit)
    optimizer = torch.optim.Adam([table], lr=plan.learning_rate)
    generator = torch.Generator().manual_seed(sides.seed)
    batch = min(plan.batch_size, len(rows))
    order, place = torch.empty(0, dtype=torch.int64), 0
    for step in range(plan.steps):
        if place + batch > len(order):
            order, place = torch.randperm(len(rows), generator=generator), 0
        taken, place = rows[order[place : place + batch].to(rows.device)], place + batch
        optimizer.param_groups[0]["lr"] = (
            plan.learning_rate * 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        )
        optimizer.zero_grad()
        loss = level_loss(index, sides.train.histories(taken), sides.train.targets(taken))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if plan.limit is not None:
            project_(index.scorer, limits)
    index.scorer.requires_grad_(False)
    return index, rows


def level_loss(index: TreeIndex, histories: Tensor, labels: Tensor) -> Tensor:
    """The mean softmax loss over whole levels, summed, of a linear scorer whose rows are those of the tree."""
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    with torch.no_grad():
        state = index.state(histories, 0)
        assert isinstance(state, LinearState)
    losses = []
    # Level by level: the leaves' part is then the same numbers, bit for bit, whatever the levels above.
    for level, table in enumerate(torch.split(index.scorer.nodes.weight, list(shape.sizes))):
        if level:
            losses.append(F.cross_entropy(state.x @ table.T, shape.ancestor(leaves, level)))
    return torch.stack(losses).sum()


def _begun(plan: LinearPlan, sides: Sides) -> TreeIndex:
    """Node vectors of length 0 on a tree in the order of chance."""
    n_items = sides.split.train.n_items
    tree = grow(random_order(n_items, sides.seed), n_items, plan.branch).to(sides.device)
    config = ScorerConfig(
        tree.shape.n_nodes,
        n_items,
        "linear",
        plan.width,
        windows=plan.windows,
        history="item",
        norm="none",
        bias=False,
    )
    scorer = make_scorer(config, sides.seed).to(sides.device).eval()
    assert scorer.items is not None
    with torch.no_grad():
        scorer.nodes.weight.zero_()
        scorer.items.weight.copy_(sides.vectors(plan.width))
    return TreeIndex(tree, scorer, "slot")
