"""Loss of one batch: sampler, scorer and loss, on any device."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.train.tree.loss import binary, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.samplers.beam_sampler import BeamSampler, model_targets
from shortlist.train.tree.samplers.sampler import (
    AllSampler,
    LevelScore,
    SampledNodes,
    SiblingSampler,
    UniformSampler,
    depth_aware,
    only_live,
)
from shortlist.train.tree.samplers.tree_sampler import TreeSampler

Sampler = AllSampler | UniformSampler | SiblingSampler | TreeSampler | BeamSampler


@dataclass(frozen=True, eq=False)
class TrainStep:
    """The loss of batches between two updates of the tree."""

    plan: TreePlan
    index: TreeIndex

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The trained levels, the leaves last; none for a tree of one item."""
        return tuple(range(self.index.first, self.index.tree.shape.height + 1))

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler of the plan."""
        plan = self.plan
        if plan.sampler == "uniform":
            return UniformSampler(
                depth_aware(plan.negatives, self.levels, plan.alpha) if plan.alpha else plan.negatives
            )
        if plan.sampler == "tree":
            return TreeSampler(plan.negatives, plan.start, plan.mix, plan.correction)
        if plan.sampler == "beam":
            return BeamSampler(plan.train_beam or plan.beam)
        return SiblingSampler() if plan.sampler == "siblings" else AllSampler()

    def loss(
        self, histories: Tensor, targets: Tensor, weight: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The mean loss of histories [U, K] with targets [U], and the share of levels without negatives."""
        states, tree = _States(self, histories), self.index.tree
        leaves = tree.leaves(targets)
        weight = weight * (leaves >= 0)[:, None]  # a target may have no leaf
        leaves = leaves.clamp(min=0)
        sampled = self._sample(leaves, states, generator)
        logits = states.logits(self._rows(sampled.nodes))  # [U, L, C]
        return self._loss(logits, sampled, weight, leaves, states), sampled.skip.float().mean()

    def logits(self, histories: Tensor, nodes: Tensor) -> Tensor:
        """Scores with gradients of nodes [U, L, C] of the trained levels for histories [U, K]."""
        return _States(self, histories).logits(self._rows(nodes))

    def _sample(self, leaves: Tensor, states: "_States", generator: torch.Generator) -> SampledNodes:
        tree = self.index.tree
        with torch.no_grad():
            score = states.live_scores if self.plan.sampler == "beam" else states.eval_scores
            sampled = self.sampler.sample(tree.shape, self.levels, leaves, generator, score)
        return only_live(sampled, self.levels, tree) if self.plan.spare_leaves else sampled

    def _rows(self, nodes: Tensor) -> Tensor:
        """Rows in the node table of sampled nodes [U, L, C]."""
        return torch.stack(
            [self.index.rows(level, nodes[:, at]) for at, level in enumerate(self.levels)], dim=1
        )

    def _loss(
        self, logits: Tensor, sampled: SampledNodes, weight: Tensor, leaves: Tensor, states: "_States"
    ) -> Tensor:
        plan = self.plan
        if plan.loss == "softmax":
            return sampled_softmax(logits, sampled.logw, sampled.valid, weight, plan.reduction)
        if plan.loss == "margin":
            return margin(logits, sampled.valid, weight, reduction=plan.reduction)
        if plan.loss == "hinge":
            return top_k_hinge(logits, sampled.valid, weight, plan.beam, reduction=plan.reduction)
        label, valid = torch.ones_like(weight), sampled.valid
        if plan.labels == "model":
            with torch.no_grad():
                label = model_targets(states.live_scores, self.index.tree.shape, self.levels, leaves)
        if sampled.reached is not None:
            # Only nodes that search reaches are trained: any other node would occur as a positive only, and rise.
            reached = sampled.reached
            label, valid = label * reached, torch.cat([reached[..., None], valid[..., 1:]], 2)
            # Logit of one among n nodes: the same for all nodes of a level, so their order does not change, and
            # hundreds of negatives need not push every score down first.
            logits = logits - valid.sum(2, keepdim=True).clamp(min=1).log()
        return binary(logits, valid, label, weight, plan.reduction)


def first_trained_level(plan: TreePlan, shape: TreeShape) -> int:
    """The first level with more nodes than the plan's beam, or level 1 where all are trained."""
    return max(shape.start(plan.beam), 1) if plan.levels == "useful" else 1


class _States:
    """Histories prepared for the scorer once per level, used by the sampler and by the loss."""

    def __init__(self, step: TrainStep, histories: Tensor) -> None:
        self.index, self.levels, self.histories = step.index, step.levels, histories
        scorer = self.index.scorer
        self.by_level = scorer.config.history == "ancestor"
        rows = self._ancestors() if self.by_level else histories
        self.state = scorer.prepare(rows)
        self.others: dict[int, Any] = {}

    def logits(self, rows: Tensor) -> Tensor:
        """Scores with gradients [U, L, C]."""
        shaped = rows.flatten(0, 1) if self.by_level else rows.flatten(1)
        return self.index.scorer.score(self.state, shaped).view(rows.shape)

    @property
    def eval_scores(self) -> LevelScore:
        """Scores as in search: no gradient, no dropout, no batch statistics."""

        def score(level: int, nodes: Tensor) -> Tensor:
            scorer = self.index.scorer
            was = scorer.training
            scorer.eval()
            with torch.no_grad():
                scores = scorer.score(self._at(level), self.index.rows(level, nodes))
            scorer.train(was)
            return scores

        return score

    @property
    def live_scores(self) -> LevelScore:
        """`eval_scores`, but -inf for nodes without an item below, which search never scores."""
        scores, tree = self.eval_scores, self.index.tree
        if tree.n_live == tree.shape.n:
            return scores
        return lambda level, nodes: scores(level, nodes).masked_fill(~tree.live(level)[nodes], -torch.inf)

    def _at(self, level: int) -> Any:
        """The state of one level, a view without gradient where it is prepared already."""
        if level not in self.others:
            if not self.by_level:
                made = [None if one is None else one.detach() for one in self.state]
            elif level in self.levels:
                made = [None if one is None else self._slice(one, level) for one in self.state]
            else:
                made = list(self.index.state(self.histories, level))
            self.others[level] = type(self.state)(*made)
        return self.others[level]

    def _slice(self, one: Tensor, level: int) -> Tensor:
        shaped = one.detach().view(len(self.histories), len(self.levels), *one.shape[1:])
        return shaped[:, self.levels.index(level)]

    def _ancestors(self) -> Tensor:
        """Rows of the histories' ancestors at every level, flat [U * L, K]."""
        rows = [self.index.history_rows(level, self.histories) for level in self.levels]
        return torch.stack(rows, dim=1).flatten(0, 1)
