"""What training did to a tree, beyond what a search shows: the price of drawing negatives, leads, and theorems."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.diagnose.tree.heap import level_values
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.evaluation import longest
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_compare import BoundTable, compare_branches
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import Beside, held_out, train_test_gap, tree_losses
from shortlist.lab.theory.bounds_sampler import LevelGap, sampler_levels
from shortlist.lab.theory.margin import beam_candidates, level_margins
from shortlist.train.tree.batches import Instances, instances_of
from shortlist.train.tree.plan import TreePlan

USERS = 200  # requests of either side, at most
CELLS = 4_000_000  # users x nodes looked at, at most, unless that were too few users
FEW = 10
DRAWS = 50  # of the negatives of an instance, for the measured gap
QUANTILES = (0.1, 0.5, 0.9)
LOSS = "of the margin, 0 to 1"


@dataclass(frozen=True, eq=False)
class TreeTheory:
    """Levels under both samplers, leads by level, and bounds against trees of other branches."""

    instances: int
    negatives: int
    sampler: str  # that training used
    loss: str  # that training used
    levels: Sequence[LevelGap]
    leads: Sequence[dict[str, Any]]
    bounds: BoundTable

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        taught = {
            name: getattr(self, name) for name in ("instances", "negatives", "sampler", "loss", "leads")
        }
        return taught | {
            "levels": [one.as_dict() for one in self.levels],
            "bounds": self.bounds.as_dict(),
        }


@torch.no_grad()
def tree_theory(
    index: TreeIndex,
    plan: TreePlan,
    learned: Interactions,
    cases: HeldOut,
    k: int,
    beam: int,
    product: bool = False,
    seed: int = 0,
) -> TreeTheory:
    """Look at a tree through some instances it learned from, as its `plan` made them, and some held-out cases."""
    taught = instances_of(learned, sum(plan.windows), plan.min_history, plan.instances, torch.device("cpu"))
    count = max(FEW, min(USERS, CELLS // max(index.tree.shape.n_nodes, 1)))
    rows = _known(index, taught.labels(torch.arange(len(taught))), count, seed)
    histories, labels = taught.histories(rows), taught.labels(rows)
    asked, wanted, users = _asked(index, cases, count, seed)
    losses = tree_losses(index, asked, wanted, k)
    error, upper = held_out(losses.error)
    before = tree_losses(index, histories, labels, k)
    gap = train_test_gap(before.ramp, taught.starts[rows], losses.ramp, users, seed)
    bounds = compare_branches(_inputs(index, taught, k), force=True)
    return TreeTheory(
        instances=len(rows),
        negatives=plan.negatives,
        sampler=plan.sampler,
        loss=plan.loss,
        levels=sampler_levels(index, histories, labels, plan.negatives, plan.mix, draws=DRAWS, seed=seed),
        leads=leads(index, asked, wanted, k, beam, product),
        bounds=replace(bounds, beside={bounds.reference: Beside(error, upper, gap, LOSS)}),
    )


def theory_told(index: TreeIndex, plan: TreePlan | None, *asked: Any, **settings: Any) -> dict[str, Any]:
    """The same in plain values, or why there is nothing to tell."""
    if plan is None:
        return {"why": "the bundle does not say how this tree was trained"}
    try:
        return tree_theory(index, plan, *asked, **settings).as_dict()
    except (ConfigError, DataError) as error:
        return {"why": " ".join(str(error).split())}


def leads(
    index: TreeIndex, histories: Tensor, wanted: Tensor, k: int, beam: int, product: bool = False
) -> list[dict[str, Any]]:
    """By how much the nodes above wanted items [n] lead the first that the beam leaves out, in quantiles by level.

    A node that trails would be lost at its level. Where a level fits into the beam there is no lead to tell.
    """
    shape, values = index.tree.shape, level_values(index, histories, product)
    candidates = beam_candidates(shape, values, beam)
    found = level_margins(shape, values, index.tree.leaves(wanted), k, beam=beam, cand=candidates)
    return [_lead(level, one) for level, one in enumerate(found.T, start=1)]


def _lead(level: int, found: Tensor) -> dict[str, Any]:
    """Quantiles of the leads [n] of a level, and the share of those that trail."""
    known = found[found.isfinite()].double()
    told: list[float | None] = [None] * len(QUANTILES)
    if len(known):
        told = known.quantile(torch.tensor(QUANTILES, dtype=torch.float64)).tolist()
    names = [f"q{round(100 * one)}" for one in QUANTILES]
    trail = float((known < 0).double().mean()) if len(known) else None
    return {"level": level, "instances": len(known), **dict(zip(names, told, strict=True)), "trail": trail}


def _asked(index: TreeIndex, cases: HeldOut, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Histories [n, K] of some held-out cases, what came next [n] and whose they are [n]."""
    known = np.flatnonzero(cases.history_lengths() > 0)
    truth = cases.relevant(known)[:, 0] if len(known) else torch.empty(0, dtype=torch.int64)
    rows = known[_known(index, truth, count, seed).numpy()]
    some = cases.take(rows)
    return some.query(width=longest(some)).history, some.relevant()[:, 0], torch.from_numpy(some.users.copy())


def _known(index: TreeIndex, labels: Tensor, count: int, seed: int) -> Tensor:
    """Rows of some labels with a leaf, drawn by lot, in their order."""
    known = torch.nonzero(index.tree.leaves(labels) >= 0)[:, 0]
    if not len(known):
        raise DataError("the tree has no leaf for anything that was wanted")
    drawn = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))[:count]
    return known[drawn].sort().values


def _inputs(index: TreeIndex, taught: Instances, k: int) -> BoundInputs:
    users = len(torch.unique(taught.starts))
    return BoundInputs.of_index(index, len(taught), n_users=users, k=k)
