"""Tree updates: every item moves to the leaf where the current scorer gives its instances the highest likelihood."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.index.tree import TreeIndex
from shortlist.index.tree.order import by_vectors
from shortlist.train.tree.instances import Instances
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.updates.likelihood import (
    Histories,
    LogLikelihood,
    sample_instances,
    sigmoid_log_likelihood,
    softmax_log_likelihood,
)
from shortlist.train.tree.updates.reassign import Reassignment, UpdateRule, reassign


@dataclass(frozen=True)
class UpdateReport:
    """Result of an update; log-likelihoods are of all instances, estimated from the sampled ones.

    They add up over the stages: the likelihood of the item's node among the descendants of its node a stage above.
    """

    moved: float  # share of items at another leaf
    before: float | None = None  # log-likelihood of the old tree
    proposed: float | None = None  # of the first proposal
    after: float | None = None  # of the returned tree
    groups: int = 0  # nodes whose items were assigned
    kept_groups: int = 0  # nodes that kept the old order of their items
    refused: bool = False  # the old tree was better and stays
    instances: int = 0  # sampled instances
    unseen: int = 0  # items without instances
    tries: int = 1  # passes from the root to the leaves, more than one where the first gave a worse tree


def updated_tree(
    plan: TreePlan, index: TreeIndex, instances: Instances, seed: int
) -> tuple[TreeIndex, UpdateReport]:
    """The index after the plan's tree update, and its report."""
    if plan.update == "tdm":
        order, report = tdm_update(index, seed)
    else:
        rows = torch.arange(len(instances), device=instances.ends.device)
        update = jtm_update if plan.update == "jtm" else dtr_update
        order, report = update(
            index,
            instances.histories,
            instances.targets(rows),
            update_rule(plan, index, seed),
            None if instances.strengths is None else instances.strengths[instances.ends],
        )
    return replace(index, tree=index.tree.reassigned(order)), report


def update_rule(plan: TreePlan, index: TreeIndex, seed: int) -> UpdateRule:
    """The rule of a plan; its first stride reaches the first trained level."""
    return UpdateRule(
        plan.stride,
        plan.instances_per_item,
        plan.priority,
        plan.stay_bonus,
        plan.guard,
        seed=seed % 2**31,
        first=index.first,
        swaps=plan.swaps,
    )


def dtr_update(
    index: TreeIndex,
    histories: Tensor | Histories,
    targets: Tensor,
    rule: UpdateRule | None = None,
    strengths: Tensor | None = None,
) -> tuple[Tensor, UpdateReport]:
    """The new `item_of_leaf` by softmax log-likelihoods (DTR, section 4.4), and a report.

    Histories [m, K] of items, or a function from rows to them, are scored with the old tree; targets [m] are items.
    `strengths` [m] multiply the log-likelihoods. Free slots stay where they are.
    """
    return _update(index, histories, targets, rule or UpdateRule(), softmax_log_likelihood, strengths)


def jtm_update(
    index: TreeIndex,
    histories: Tensor | Histories,
    targets: Tensor,
    rule: UpdateRule | None = None,
    strengths: Tensor | None = None,
) -> tuple[Tensor, UpdateReport]:
    """`dtr_update` by sums of log sigmoids on the path, as in JTM (Zhu et al., 2019)."""
    return _update(index, histories, targets, rule or UpdateRule(), sigmoid_log_likelihood, strengths)


def tdm_update(index: TreeIndex, seed: int = 0) -> tuple[Tensor, UpdateReport]:
    """The new `item_of_leaf` by recursive balanced k-means on leaf embeddings, as in TDM (Zhu et al., 2018)."""
    tree = index.tree
    slots = (tree.item_of_leaf >= 0).nonzero()[:, 0]
    vectors = index.scorer.nodes.weight.detach()[index.rows(tree.shape.height, slots)]  # [n, D]
    order = by_vectors(vectors, tree.shape.branch, seed).to(slots.device)
    leaves = torch.full_like(tree.item_of_leaf, -1).index_put((slots,), tree.item_of_leaf[slots[order]])
    return leaves, UpdateReport(_moved(tree.item_of_leaf, leaves))


@torch.no_grad()
def _update(
    index: TreeIndex,
    histories: Tensor | Histories,
    targets: Tensor,
    rule: UpdateRule,
    log_likelihood: LogLikelihood,
    strengths: Tensor | None = None,
) -> tuple[Tensor, UpdateReport]:
    tree = index.tree
    instances = sample_instances(tree, histories, targets, rule.instances_per_item, rule.seed, strengths)
    old = tree.item_of_leaf.cpu().numpy()
    task = Reassignment(index, instances, rule, log_likelihood, np.flatnonzero(old >= 0))
    with _eval_mode(index.scorer):
        node, sums, first, tries = reassign(task)
    leaves = np.full_like(old, -1)
    leaves[node] = old[task.slots]
    refused = rule.guard and not sums.gains
    found = tree.item_of_leaf if refused else torch.from_numpy(leaves).to(tree.item_of_leaf.device)
    return found, UpdateReport(
        moved=_moved(tree.item_of_leaf, found),
        before=sums.before,
        proposed=first.after,
        after=sums.before if refused else sums.after,
        groups=sums.groups,
        kept_groups=sums.kept,
        refused=refused,
        instances=len(instances.items),
        unseen=int((instances.counts == 0).sum()),
        tries=tries,
    )


@contextmanager
def _eval_mode(scorer: nn.Module) -> Iterator[None]:
    """The scorer without dropout; its mode is restored afterwards."""
    was = scorer.training
    scorer.eval()
    try:
        yield
    finally:
        scorer.train(was)


def _moved(old: Tensor, new: Tensor) -> float:
    """The share of items at another leaf."""
    return float(((old != new) & (new >= 0)).sum() / (new >= 0).sum().clamp(min=1))
