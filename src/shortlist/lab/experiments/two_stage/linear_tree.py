"""A linear tree trained under the assumptions of the theorems: fixed user vectors, whole levels, no bias.

User vectors are made of item vectors, which come from the events of the validation users: neither the users a tree is
trained on nor those it is tested on contribute to them. The tree has a random order. So all assumptions of the theorems
on linear scorers hold, except that windows of one user overlap.
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
    """Settings of the training of a linear tree."""

    branch: int = 8
    width: int = 24
    share: float = 1.0  # of the training users
    limit: float | None = None  # on the norm of node vectors
    steps: int = 600
    batch_size: int = 1000
    learning_rate: float = 0.05
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)
    min_history: int = 14


@dataclass(frozen=True, eq=False)
class Sample:
    """Some instances and their users."""

    histories: Tensor  # int64 [n, K]
    targets: Tensor  # int64 [n]
    users: Tensor  # int64 [n]


@dataclass(frozen=True, eq=False)
class TrainTest:
    """Instances of the training and of the test users of one split, sampled in the same way."""

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

    def training_rows(self, share: float) -> Tensor:
        """The instances of a random share of the training users; smaller shares are subsets of larger ones."""
        users = torch.unique(self.train.starts).cpu()
        order = torch.from_numpy(np.random.default_rng([self.seed, 5]).permutation(len(users)))
        chosen = users[order[: max(1, round(share * len(users)))]].to(self.device)
        return torch.nonzero(torch.isin(self.train.starts, chosen))[:, 0]

    def sample(self, instances: Instances, rows: Tensor, most: int) -> Sample:
        """At most `most` random instances of `rows`."""
        picked = np.random.default_rng([self.seed, 6]).permutation(len(rows))[:most]
        some = rows[torch.from_numpy(np.sort(picked)).to(rows.device)]
        return Sample(instances.histories(some), instances.targets(some), instances.starts[some])

    def vectors(self, width: int) -> Tensor:
        """Item vectors from the validation users only; the last number is 1, so that popularity can be fitted."""
        events = events_of(self.split.valid)
        vectors = torch.ones(events.n_items, width)
        if width > 1:
            vectors[:, :-1] = item_vectors(events, width - 1, self.seed)
        return vectors


def events_of(held_out: HeldOut) -> Interactions:
    """All events of held-out users, before and after the cut."""
    return held_out.events.where(np.isin(held_out.events.users, held_out.users))


def train_linear(plan: LinearPlan, data: TrainTest) -> tuple[TreeIndex, Tensor]:
    """The trained tree and the instances it was trained on."""
    index, rows = _initial(plan, data), data.training_rows(plan.share)
    table, limits = index.scorer.nodes.weight, NormLimits(b0=plan.limit)
    optimizer = torch.optim.Adam([table], lr=plan.learning_rate)
    generator = torch.Generator().manual_seed(data.seed)
    size = min(plan.batch_size, len(rows))
    order, at = torch.empty(0, dtype=torch.int64), 0
    for step in range(plan.steps):
        if at + size > len(order):
            order, at = torch.randperm(len(rows), generator=generator), 0
        batch, at = rows[order[at : at + size].to(rows.device)], at + size
        optimizer.param_groups[0]["lr"] = (
            plan.learning_rate * 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        )
        optimizer.zero_grad()
        loss = level_loss(index, data.train.histories(batch), data.train.targets(batch))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if plan.limit is not None:
            project_(index.scorer, limits)
    index.scorer.requires_grad_(False)
    return index, rows


def level_loss(index: TreeIndex, histories: Tensor, targets: Tensor) -> Tensor:
    """The mean softmax loss over whole levels, summed over levels, of a linear scorer with the rows of the tree."""
    shape, leaves = index.tree.shape, index.tree.leaves(targets)
    with torch.no_grad():
        state = index.state(histories, 0)
        assert isinstance(state, LinearState)
    losses = []
    # Level by level: the loss of the leaves does not depend on the number of levels above, up to rounding.
    for level, table in enumerate(torch.split(index.scorer.nodes.weight, list(shape.sizes))):
        if level:
            losses.append(F.cross_entropy(state.x @ table.T, shape.ancestor(leaves, level)))
    return torch.stack(losses).sum()


def _initial(plan: LinearPlan, data: TrainTest) -> TreeIndex:
    """Zero node vectors on a tree with a random order."""
    n_items = data.split.train.n_items
    tree = grow(random_order(n_items, data.seed), n_items, plan.branch).to(data.device)
    config = ScorerConfig(
        tree.shape.n_nodes,
        n_items,
        "linear",
        width=plan.width,
        windows=plan.windows,
        history="item",
        norm="none",
        bias=False,
    )
    scorer = make_scorer(config, data.seed).to(data.device).eval()
    assert scorer.items is not None
    with torch.no_grad():
        scorer.nodes.weight.zero_()
        scorer.items.weight.copy_(data.vectors(plan.width))
    return TreeIndex(tree, scorer, "slot")
