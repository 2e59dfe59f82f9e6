"""Time of a training step of an attention tree on one CPU core, against the same step with unblocked attention."""

import statistics

import torch
from torch import Tensor

from shortlist.index.tree import TreeIndex, grow, n_rows, random_order
from shortlist.lab.bench.timing import Job, alternating
from shortlist.lab.result import Claim, Row, at_most, row
from shortlist.models.nodes import AttentionScorer, ScorerConfig, UnitInputs, make_scorer, plain_weights
from shortlist.models.nodes.config import ScorerSettings, values_of
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.step import TrainStep, first_trained_level

BATCH = 64
SOURCE = "target of this project"


class Unblocked(AttentionScorer):
    """The same scorer whose attention keeps every value for the backward pass."""

    def unit_weights(self, unit: UnitInputs) -> Tensor:
        return plain_weights(unit)


def steps_compared(items: int, repeats: int, seed: int) -> tuple[list[Row], list[Claim]]:
    """Seconds of forward and backward at batch 64 with the default plan, and how much the gradients differ."""
    step = training_step(items, seed)
    slow = TrainStep(step.plan, _unblocked(step.index))
    times = alternating({"blocked": _job(step, seed), "plain": _job(slow, seed)}, repeats, {"blocked": 3})
    ratio = statistics.median(times["blocked"]) / statistics.median(times["plain"])
    rows = [row(name, f"ms per training step, batch {BATCH}", _milli(own)) for name, own in times.items()]
    rows.append(row("blocked", "largest difference of gradients", [differences(step, slow, seed)]))
    return rows, [at_most("attention_step_over_plain", SOURCE, ratio, 0.5)]


def training_step(items: int, seed: int, plan: TreePlan | None = None) -> TrainStep:
    """The step of a tree in random order with an untrained scorer; without a plan, of the default one."""
    plan = plan or TreePlan()
    tree = grow(random_order(items, seed), items, plan.branch)
    rows = n_rows(tree.shape, items, plan.leaf_vectors)
    scorer = make_scorer(ScorerConfig(rows, items, **values_of(plan, ScorerSettings)), seed).train()
    return TrainStep(plan, TreeIndex(tree, scorer, plan.leaf_vectors, first_trained_level(plan, tree.shape)))


def differences(step: TrainStep, other: TrainStep, seed: int) -> float:
    """The largest difference of two steps' gradients, relative to the largest value of each gradient."""
    one, two = gradients(step, seed), gradients(other, seed)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(one, two, strict=True) if b.any())


def gradients(step: TrainStep, seed: int) -> list[Tensor]:
    """Gradients of all weights for random histories and targets; the same seed gives the same requests."""
    generator = torch.Generator().manual_seed(seed)
    items, levels = step.index.tree.n_items, len(step.levels)
    histories = torch.randint(items, (BATCH, sum(step.plan.windows)), generator=generator)
    targets = torch.randint(items, (BATCH,), generator=generator)
    loss, _ = step.loss(histories, targets, torch.ones(BATCH, levels), generator)
    return list(torch.autograd.grad(loss, list(step.index.scorer.parameters())))


def _unblocked(index: TreeIndex) -> TreeIndex:
    scorer = Unblocked(index.scorer.config)
    scorer.load_state_dict(index.scorer.state_dict())
    return TreeIndex(index.tree, scorer.train(), index.leaf_vectors, index.first)


def _job(step: TrainStep, seed: int) -> Job:
    return lambda number: gradients(step, abs(seed + number))


def _milli(seconds: list[float]) -> list[float]:
    return [1e3 * value for value in seconds]
