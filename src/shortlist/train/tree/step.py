"""One batch through sampler, scorer and loss, on whatever device it lives."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.train.tree.beam_sampler import BeamSampler, model_targets
from shortlist.train.tree.loss import binary, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.sampler import All, Draw, LevelScore, Siblings, Uniform, depth_aware, only_live
from shortlist.train.tree.tree_sampler import TreeSampler

Sampler = All | Uniform | Siblings | TreeSampler | BeamSampler


@dataclass(frozen=True, eq=False)
class Step:
    """What is the same for all batches between two updates of the tree."""

    plan: TreePlan
    index: TreeIndex

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The levels that are taught, the leaves last; none for a tree of one item."""
        return tuple(range(self.index.first, self.index.tree.shape.height + 1))

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler the plan names."""
        plan = self.plan
        if plan.sampler == "uniform":
            return Uniform(
                depth_aware(plan.negatives, self.levels, plan.alpha) if plan.alpha else plan.negatives
            )
        if plan.sampler == "tree":
            return TreeSampler(plan.negatives, plan.start, plan.mix, plan.correction)
        if plan.sampler == "beam":
            return BeamSampler(plan.taught_beam or plan.beam)
        return Siblings() if plan.sampler == "siblings" else All()

    def loss(
        self, histories: Tensor, labels: Tensor, weight: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The mean loss of items met [U, K] and items that came [U], and the share of levels without negatives."""
        states, tree = _States(self, histories), self.index.tree
        leaves = tree.leaves(labels)
        weight, leaves = (
            weight * (leaves >= 0)[:, None],
            leaves.clamp(min=0),
        )  # an item may have left the tree
        drawn = self._draw(leaves, states, generator)
        logits = states.logits(self._rows(drawn.nodes))  # [U, L, C]
        return self._loss(logits, drawn, weight, leaves, states), drawn.skip.float().mean()

    def _draw(self, leaves: Tensor, states: "_States", generator: torch.Generator) -> Draw:
        tree = self.index.tree
        with torch.no_grad():
            score = states.living if self.plan.sampler == "beam" else states.quiet
            drawn = self.sampler.draw(tree.shape, self.levels, leaves, generator, score)
        return only_live(drawn, self.levels, tree) if self.plan.spare else drawn

    def _rows(self, nodes: Tensor) -> Tensor:
        """Rows in the node table of drawn nodes [U, L, C]."""
        return torch.stack(
            [self.index.rows(level, nodes[:, at]) for at, level in enumerate(self.levels)], dim=1
        )

    def _loss(self, logits: Tensor, drawn: Draw, weight: Tensor, leaves: Tensor, states: "_States") -> Tensor:
        plan = self.plan
        if plan.loss == "softmax":
            return sampled_softmax(logits, drawn.logw, drawn.valid, weight, plan.reduction)
        if plan.loss == "margin":
            return margin(logits, drawn.valid, weight, reduction=plan.reduction)
        if plan.loss == "hinge":
            return top_k_hinge(logits, drawn.valid, weight, plan.beam, reduction=plan.reduction)
        label, valid = torch.ones_like(weight), drawn.valid
        if plan.labels == "model":
            with torch.no_grad():
                label = model_targets(states.living, self.index.tree.shape, self.levels, leaves)
        if drawn.met is not None:
            # Only what the search came by is taught: a node it passes by would be met as a positive alone, and rise.
            label, valid = label * drawn.met, torch.cat([drawn.met[..., None], valid[..., 1:]], 2)
            # One of so many: the same for all nodes of a level, so it changes no order within it, and hundreds of
            # negatives need not push every score down first.
            logits = logits - valid.sum(2, keepdim=True).clamp(min=1).log()
        return binary(logits, valid, label, weight, plan.reduction)


def first_taught(plan: TreePlan, shape: TreeShape) -> int:
    """The first level that decides anything at the plan's beam, or the first of all."""
    return max(shape.start(plan.beam), 1) if plan.levels == "useful" else 1


class _States:
    """Histories as the scorer wants them, at every level; prepared once, used by the sampler and by the loss."""

    def __init__(self, step: Step, histories: Tensor) -> None:
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
    def quiet(self) -> LevelScore:
        """Scores as search would see them: no gradient, no dropout, no statistics of this batch."""

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
    def living(self) -> LevelScore:
        """`quiet`, but -inf for nodes without an item below: search never meets them, so none wins against one."""
        quiet, tree = self.quiet, self.index.tree
        if tree.n_live == tree.shape.n:
            return quiet
        return lambda level, nodes: quiet(level, nodes).masked_fill(~tree.live(level)[nodes], -torch.inf)

    def _at(self, level: int) -> Any:
        """The state of one level, a view without gradients of what is there already."""
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
