"""From one tree to the next, as the plan says."""

from dataclasses import replace

import torch

from shortlist.index.tree import TreeIndex
from shortlist.train.tree.batches import Instances
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.update import UpdateReport, UpdateRule, dtr_update, jtm_update, tdm_update


def updated(
    plan: TreePlan, index: TreeIndex, instances: Instances, seed: int
) -> tuple[TreeIndex, UpdateReport]:
    """The index with its items laid anew, and what was done."""
    if plan.update == "tdm":
        order, report = tdm_update(index, seed)
    else:
        rows = torch.arange(len(instances), device=instances.ends.device)
        move = jtm_update if plan.update == "jtm" else dtr_update
        order, report = move(index, instances.histories, instances.labels(rows), _rule(plan, index, seed))
    return replace(index, tree=index.tree.renewed(order)), report


def _rule(plan: TreePlan, index: TreeIndex, seed: int) -> UpdateRule:
    """Levels that are not taught have nothing to say: the first stage reaches the first that is."""
    return UpdateRule(
        plan.stride,
        plan.cap,
        plan.priority,
        plan.sticky,
        plan.guard,
        seed=seed % 2**31,
        first=index.first,
        improve=plan.improve,
    )
