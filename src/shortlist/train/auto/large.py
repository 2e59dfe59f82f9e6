"""The tree of a plan: a nominator for catalogues that are too large for other models that learn."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shortlist.data import Interactions
from shortlist.index.tree import pifa, project
from shortlist.train.auto.composed import Composed
from shortlist.train.auto.estimates import Meter, slope, some_items
from shortlist.train.auto.parts import LARGE, Parts, minutes_of, nominator
from shortlist.train.loop.device import device_of
from shortlist.train.tree.trainer import VECTORS, TreeTrainer
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet

SETTINGS: Mapping[str, Any] = {
    "method": "dtr-u",
    "order": "vectors",  # built once, by clusters of item vectors
    "update": "none",
    "rounds": 1,
    "scorer": "linear",  # the cheapest scorer of nodes
    "history": "item",
    "windows": [20],
    "branch": 8,
    "width": 32,
    "negatives": 20,
    "batch_size": 1000,
    "min_history": 1,
}
MIN_EPOCHS, MAX_EPOCHS = 5, 20  # with fewer, its candidates are below those of counts
TREE_SHARE = 0.25  # of the budget: it is planned before the sequence models
SAMPLE = (2_000, 8_000)  # items of the measured trees
STEPS = (2, 6)  # of the measured trainings: to load code, and to measure


@dataclass(frozen=True)
class TreeSeconds:
    """Seconds of building a tree, and of one epoch of its scorer."""

    build: float
    epoch: float


def with_tree(parts: Parts, plan: Composed) -> Composed:
    """The plan with a tree where the catalogue is large and enough epochs fit; else with the reason why not."""
    items, left = parts.profile.items, min(plan.budget.left, TREE_SHARE * parts.seconds)
    if items <= LARGE:
        return plan.without("tree", f"{items:,} items can all be scored; a tree pays above {LARGE:,}")
    if left <= 0:
        return plan.without("tree", parts.too_slow(parts.seconds, "its training", left))
    cost = tree_seconds(parts.meter)
    built, each = plan.budget.folds * cost.build, cost.epoch * plan.budget.epochs
    epochs = min(int((left - built) / each), MAX_EPOCHS)
    if epochs < MIN_EPOCHS:
        what = f"its construction and {MIN_EPOCHS} epochs"
        return plan.without("tree", parts.too_slow(built + MIN_EPOCHS * each, what, left))
    seconds = built + epochs * each
    train = {**SETTINGS, "epochs": epochs, "minutes": minutes_of(cost.build + epochs * cost.epoch)}
    return plan.with_stage(
        "tree",
        nominator("tree", train),
        f"{items:,} items: a search down a tree in place of the scores of all items",
        parts.limit(60),
        seconds,
        order="one tree by clusters of item vectors, which later fits keep",
        scorer="the cheapest one",
        epochs=f"an epoch takes about {cost.epoch:.2g} s, the tree {cost.build:.2g} s on {parts.profile.machine}",
        minutes=f"of each fit from the start; {seconds:.0f} s in all",
    )


def tree_seconds(meter: Meter) -> TreeSeconds:
    """The time of two small trees, scaled with the number of items, and of a few steps, with the depth of the tree."""
    return meter.once(("tree",), lambda: _tree_seconds(meter))


def _tree_seconds(meter: Meter) -> TreeSeconds:
    trainer = TreeTrainer(**SETTINGS)
    parts = [some_items(meter.events, count, meter.seed) for count in SAMPLE]
    _built(trainer, parts[0], meter.seed)  # loads code
    made, times = list[TreeTraining](), list[float]()
    for few in parts:
        times.append(meter.seconds(lambda few=few: made.append(_built(trainer, few, meter.seed))))  # type: ignore[misc]
    counts = [one.n_items for one in parts]
    deeper = math.log(max(meter.events.n_items, 2)) / math.log(max(counts[1], 2))
    build = times[1] + max(meter.events.n_items - counts[1], 0) * slope(counts, times) * deeper
    made[1].run(until=STEPS[0])
    step = meter.seconds(lambda: _run(made[1], sum(STEPS))) / STEPS[1] * deeper
    instances = len(meter.events) - int((meter.events.lengths > 0).sum())
    return TreeSeconds(build, step * max(instances // trainer.plan().batch_size, 1))


def _built(trainer: TreeTrainer, events: Interactions, seed: int) -> TreeTraining:
    """A tree of some events, before its first step."""
    vectors = project(pifa(events.weighted_matrix()), VECTORS, seed)
    return TreeTraining(trainer.plan(), TreeTrainingSet(events, vectors=vectors), seed, trainer.device)


def _run(training: TreeTraining, until: int) -> None:
    training.run(until=until)
    if device_of("auto").type == "cuda":
        torch.cuda.synchronize()
