"""A trained tree in terms of the theory: the gap of sampled losses, leads by level, and bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_compare import BoundTable, compare_branches
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import Measured, held_out, train_test_gap, tree_losses
from shortlist.lab.theory.bounds_sampler import LevelGap, sampler_levels
from shortlist.lab.theory.margin import beam_candidates, level_margins
from shortlist.pipeline.batch.held_out import longest_history
from shortlist.train.tree.instances import Instances, instances_of
from shortlist.train.tree.plan import TreePlan

USERS = 200  # instances of either set, at most
CELLS = 4_000_000  # users x nodes, at most, unless that leaves too few users
MIN_USERS = 10
DRAWS = 50  # samples of the negatives of an instance, for the measured gap
QUANTILES = (0.1, 0.5, 0.9)
LOSS = "ramp loss of the margin"


@dataclass(frozen=True)
class LevelLead:
    """Leads of one level: their quantiles and the share of negative ones, None without a lead."""

    level: int
    instances: int  # with a lead
    q10: float | None = None
    q50: float | None = None
    q90: float | None = None
    negative: float | None = None


@dataclass(frozen=True, eq=False)
class TreeTheory:
    """Levels under both samplers, leads by level, and bounds relative to trees of other branches."""

    instances: int
    negatives: int
    sampler: str  # of the training
    loss: str  # of the training
    levels: Sequence[LevelGap]
    leads: Sequence[LevelLead]
    bounds: BoundTable


@torch.no_grad()
def tree_theory(
    index: TreeIndex,
    plan: TreePlan,
    events: Interactions,
    users: HeldOut,
    k: int,
    beam: int,
    product: bool = False,
    seed: int = 0,
) -> TreeTheory:
    """Evaluate a tree on a sample of its training instances, as its `plan` made them, and of held-out users."""
    trained = instances_of(events, sum(plan.windows), plan.min_history, plan.instances, torch.device("cpu"))
    count = max(MIN_USERS, min(USERS, CELLS // max(index.tree.shape.n_nodes, 1)))
    rows = _sample(index, trained.targets(torch.arange(len(trained))), count, seed)
    histories, labels = trained.histories(rows), trained.targets(rows)
    held_histories, relevant, sampled = _held_out(index, users, count, seed)
    losses = tree_losses(index, held_histories, relevant, k)
    error, upper = held_out(losses.error)
    training = tree_losses(index, histories, labels, k)
    gap = train_test_gap(training.ramp, trained.starts[rows], losses.ramp, sampled, seed)
    bounds = compare_branches(_inputs(index, trained, k), force=True)
    return TreeTheory(
        instances=len(rows),
        negatives=plan.negatives,
        sampler=plan.sampler,
        loss=plan.loss,
        levels=sampler_levels(index, histories, labels, plan.negatives, plan.mix, draws=DRAWS, seed=seed),
        leads=leads(index, held_histories, relevant, k, beam, product),
        bounds=replace(bounds, measured={bounds.reference: Measured(error, upper, gap, LOSS)}),
    )


def leads(
    index: TreeIndex, histories: Tensor, relevant: Tensor, k: int, beam: int, product: bool = False
) -> list[LevelLead]:
    """Leads of the nodes above relevant items [n] over the first node outside of the beam, in quantiles by level.

    A node with a negative lead is lost at its level. A level that fits into the beam has no leads.
    """
    shape, values = index.tree.shape, level_scores(index, histories, product)
    candidates = beam_candidates(shape, values, beam)
    found = level_margins(shape, values, index.tree.leaves(relevant), k, beam=beam, cand=candidates)
    return [_lead(level, values) for level, values in enumerate(found.T, start=1)]


def _lead(level: int, found: Tensor) -> LevelLead:
    """Quantiles of the leads [n] of a level, and the share of negative ones."""
    known = found[found.isfinite()].double()
    if not len(known):
        return LevelLead(level, 0)
    low, median, high = known.quantile(torch.tensor(QUANTILES, dtype=torch.float64)).tolist()
    return LevelLead(level, len(known), low, median, high, float((known < 0).double().mean()))


def _held_out(index: TreeIndex, users: HeldOut, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Histories [n, K] of a sample of held-out users, their next items [n] and users [n]."""
    known = np.flatnonzero(users.history_lengths() > 0)
    targets = users.relevant(known)[:, 0] if len(known) else torch.empty(0, dtype=torch.int64)
    rows = known[_sample(index, targets, count, seed).numpy()]
    some = users.take(rows)
    histories = some.query(width=longest_history(some)).history
    return histories, some.relevant()[:, 0], torch.from_numpy(some.users.copy())


def _sample(index: TreeIndex, labels: Tensor, count: int, seed: int) -> Tensor:
    """Rows of a random sample of labels with a leaf, ascending."""
    known = torch.nonzero(index.tree.leaves(labels) >= 0)[:, 0]
    if not len(known):
        raise DataError("the tree has no leaf for any relevant item")
    sampled = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))[:count]
    return known[sampled].sort().values


def _inputs(index: TreeIndex, trained: Instances, k: int) -> BoundInputs:
    users = len(torch.unique(trained.starts))
    return BoundInputs.of_index(index, len(trained), n_users=users, k=k)
