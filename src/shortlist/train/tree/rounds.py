"""Teach the scorer, update the tree, and again: training that alternates, and can be stopped and resumed."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, ShortlistError
from shortlist.index.tree import TreeIndex, TreeShape, by_category, by_vectors, grow, n_rows, random_order
from shortlist.models.nodes import AttentionScorer, ScorerConfig, make_scorer, take_weights
from shortlist.progress import Progress, silent
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for
from shortlist.train.loop.device import device_of
from shortlist.train.tree.batches import forgotten, instances_of
from shortlist.train.tree.checkpoint import Marks, Standing, is_kept, keep, marks_of, resume
from shortlist.train.tree.init_vectors import item_vectors, settle
from shortlist.train.tree.optimise import Optimiser
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.rectify import Estimator, Labels, label_weights, rectified
from shortlist.train.tree.step import Step, first_taught
from shortlist.train.tree.turn import updated
from shortlist.train.tree.validation import answers

Clock = Callable[[], float]


@dataclass(frozen=True, eq=False)
class TreeTrainingSet:
    """What a tree is taught with."""

    events: Interactions
    categories: Tensor | None = None  # [n_items], -1 = unknown
    vectors: Tensor | None = None  # [n_items, D] for the order "vectors"
    valid: HeldOut | None = None
    estimator: Estimator | None = None  # for rectified labels
    order: Tensor | None = None  # a tree to begin with
    weights: Mapping[str, Tensor] | None = None  # a scorer to begin with, on a tree of the same shape


class TreeTraining:
    """Alternating training; everything random is a function of the seed and the step.

    With a `folder`, where training stands is kept there after every `keep_every` steps (0: after every judgement),
    after a step when it was not for `keep_seconds`, and at the end of a run; what an earlier run of the same training
    left there is taken up.
    """

    def __init__(
        self,
        plan: TreePlan,
        lesson: TreeTrainingSet,
        seed: int = 0,
        device: str = "auto",
        progress: Progress = silent,
        clock: Clock | None = None,
        folder: Path | None = None,
        keep_every: int = 0,
        keep_seconds: float = math.inf,
    ) -> None:
        self.plan, self.lesson, self.seed, self.progress, self.clock = plan, lesson, seed, progress, clock
        self.device = device_of(device)
        if plan.precision == "bfloat16" and self.device.type == "cpu":
            raise ConfigError(
                "tree: precision 'bfloat16' needs a GPU, this is a CPU; say 'auto' or 'float32'"
            )
        max_history = sum(plan.windows)
        self.instances = instances_of(
            lesson.events, max_history, plan.min_history, plan.instances, self.device
        )
        self.folder, self.keep_every = folder, keep_every or plan.judge_every
        self.keep_seconds, self._kept_at = keep_seconds, time.monotonic()
        self._marks = self._marked() if folder else {}
        self.standing = (
            resume(folder, plan, self.device, self._marks) if folder and is_kept(folder) else self._begin()
        )
        if plan.compiled and isinstance(scorer := self.standing.index.scorer, AttentionScorer):
            scorer.layers.after = torch.compile(scorer.layers.after, dynamic=True)  # type: ignore[method-assign]
        self._kept = -1
        self._cases = _some(lesson.valid, seed)
        self._labels: Labels | None = None
        self._turned = (-1, torch.empty(0))
        self._step = Step(plan, self.standing.index)
        self._generator = torch.Generator(self.device)
        self._taken = torch.zeros(
            min(plan.batch_size, len(self.instances)), dtype=torch.int64, device=self.device
        )  # instances of the step
        self._stream = stream_for(self.device) if self._recordable() else None
        self._turn: Callable[[], None] | None = None

    def run(self, until: int | None = None) -> TreeIndex:
        """Train up to a step, or to the end; returns the index that did best on the cases to choose by."""
        last = self.plan.total if until is None else min(until, self.plan.total)
        with self._own_chance(), on(self._stream):
            while self.standing.step < last and self._teachable() and not self._tired():
                self._between_rounds()
                self._one_step()
                if self.standing.step % self.plan.judge_every == 0 or self.standing.step == self.plan.total:
                    self._judge()
                overdue = time.monotonic() - self._kept_at >= self.keep_seconds
                if overdue or self.standing.step % self.keep_every == 0:
                    self._keep()
                self.progress("tree", self.standing.step, self.plan.total)
        self._turn = None  # what was recorded holds much memory, and this training
        self._keep()
        return self.chosen()

    def chosen(self) -> TreeIndex:
        """The best so far, ready to search."""
        index, standing = self.standing.index, self.standing
        if standing.best_order is not None:
            tree = replace(index.tree, item_of_leaf=standing.best_order)
            scorer = make_scorer(index.scorer.config, self.seed).to(self.device)
            scorer.load_state_dict(standing.best)
            index = replace(index, tree=tree, scorer=scorer)
        index.scorer.eval()
        return index

    def _begin(self) -> Standing:
        plan, n_items = self.plan, self.lesson.events.n_items
        branch = plan.branch or max(n_items, 2)
        order = self.lesson.order if self.lesson.order is not None else self._order(branch)
        tree = grow(order, n_items, branch, plan.spare).to(self.device)
        config = scorer_config(plan, tree.shape, n_items)
        scorer = make_scorer(config, self.seed).to(self.device)
        index = TreeIndex(tree, scorer, plan.leaf_vectors, first_taught(plan, tree.shape))
        if self.lesson.weights is not None:
            take_weights(scorer, self.lesson.weights)
        elif plan.vectors == "met":
            settle(index, item_vectors(self.lesson.events, plan.width, self.seed), plan.spread)
        return Standing(index, Optimiser(plan, scorer), torch.zeros(2, device=self.device))

    def _order(self, branch: int) -> Tensor:
        """Items in the order of the leaves before anything is learned."""
        n_items, plan = self.lesson.events.n_items, self.plan
        if plan.order == "vectors":
            if self.lesson.vectors is None:
                raise ShortlistError("tree: the order 'vectors' needs item vectors, got none")
            return by_vectors(self.lesson.vectors, branch, self.seed)
        if plan.order == "random" or self.lesson.categories is None:
            return random_order(n_items, self.seed)
        return by_category(self.lesson.categories, self.seed, shuffle=plan.order == "category")

    def _between_rounds(self) -> None:
        """An update of the tree, and a fresh optimizer where the plan says so, before each round but the first."""
        step, plan = self.standing.step, self.plan
        if step == 0 or step % plan.steps:
            return
        self._turn = None
        if plan.update != "none" and self.standing.updates < step // plan.steps:
            with self._precision():
                index, report = updated(plan, self.standing.index, self.instances, self._seed(1, step))
            self.standing.index, self.standing.updates = index, self.standing.updates + 1
            self.standing.told.append({"step": step, "update": report.as_dict(), **self._time()})
            self._step, self._labels = Step(plan, index), None
        if plan.restart:
            self.standing.optimiser = Optimiser(plan, self.standing.index.scorer)

    def _recordable(self) -> bool:
        """Whether steps are replayed: on a GPU, where all that is random comes from our own generator, and all that is
        computed is our own."""
        plan, lazy = self.plan, self.standing.index.scorer.lazy
        asks = plan.labels == "rectified" and plan.ahead > 1  # an estimator may do what cannot be recorded
        other = plan.dropout or plan.compiled or lazy or asks
        return self.device.type == "cuda" and plan.recorded and not other

    def _fresh_turn(self) -> Callable[[], None]:
        """What does a step between two updates."""
        return Recorded(self._work, self._stream, self._generator) if self._stream else self._work

    def _one_step(self) -> None:
        standing = self.standing
        standing.index.scorer.train()
        self._generator.manual_seed(self._seed(0, standing.step))
        if self.plan.dropout:
            self._throw(self._seed(2, standing.step))
        self._taken.copy_(self._rows())
        self._rectify()
        standing.optimiser.pace(standing.step)
        if self._turn is None:
            self._turn = self._fresh_turn()
        self._turn()
        standing.since += 1
        standing.step += 1

    def _work(self) -> None:
        """The step itself, on the instances taken, all of it on the device."""
        rows, generator = self._taken, self._generator
        histories, labels = self.instances.histories(rows), self._label(rows, generator)
        weights = self._weights(rows, histories, labels)
        seen = forgotten(histories, self.plan.forget, generator)
        with self._precision():
            loss, skipped = self._step.loss(seen, labels, weights, generator)
        self.standing.optimiser.step(loss)
        self.standing.losses += torch.stack([loss.detach(), skipped])

    def _rows(self) -> Tensor:
        """The instances of this step: an epoch shows each at most once, in an order of its own, in whole batches."""
        count, batch = len(self.instances), min(self.plan.batch_size, len(self.instances))
        epoch, place = divmod(self.standing.step, count // batch)
        if self._turned[0] != epoch:
            generator = torch.Generator(self.device).manual_seed(self._seed(3, epoch))
            self._turned = (epoch, torch.randperm(count, generator=generator, device=self.device))
        return self._turned[1][place * batch : (place + 1) * batch]

    def _label(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        if self.plan.ahead == 1:
            return self.instances.labels(rows)
        return self.instances.labels_ahead(rows, self.plan.ahead, generator)

    def _weights(self, rows: Tensor, histories: Tensor, labels: Tensor) -> Tensor:
        """How much each level of each instance counts [U, L]; labels that are drawn anew are rectified anew."""
        tree, levels = self.standing.index.tree, self._step.levels
        if self.plan.labels != "rectified":
            return torch.ones((len(rows), len(levels)), device=self.device)
        if self._labels is not None:
            return self._labels.weights(rows, levels)
        with torch.no_grad(), self._precision():
            scores = self._estimator()(histories)
            return label_weights(scores, labels, tree, levels, self.plan.rectify)

    def _rectify(self) -> None:
        """Labels of all instances under a new tree, where instances keep theirs."""
        plan = self.plan
        if plan.labels == "rectified" and plan.ahead == 1 and self._labels is None:
            with torch.no_grad(), self._precision():
                tree = self.standing.index.tree
                self._labels = rectified(tree, self.instances, self._estimator(), plan.rectify)

    def _estimator(self) -> Estimator:
        if self.lesson.estimator is None:
            raise ShortlistError("tree: rectified labels need an estimator of probabilities, got none")
        return self.lesson.estimator

    def _judge(self) -> None:
        """Look at loss and quality; this is where the host waits for the device."""
        mean = (self.standing.losses / max(self.standing.since, 1)).tolist()
        self.standing.losses.zero_()
        self.standing.since = 0
        if not np.isfinite(mean[0]):
            raise ShortlistError(
                f"tree: the loss is {mean[0]} at step {self.standing.step}; lower the learning rate"
            )
        told = {"step": self.standing.step, "loss": mean[0], "skipped": mean[1], **self._time()}
        if self._cases is not None:
            self.standing.index.scorer.eval()
            with self._precision():
                told.update(quality(self.standing.index, self._cases, self.plan))
            before = [one["f1"] for one in self.standing.told if "f1" in one]
            if not before or told["f1"] > max(before):
                state = self.standing.index.scorer.state_dict()
                self.standing.best = {name: one.detach().clone() for name, one in state.items()}
                self.standing.best_order = self.standing.index.tree.item_of_leaf
        self.standing.told.append(told)

    def _tired(self) -> bool:
        """Whether quality has not risen for `patience` judgements."""
        said = [one["f1"] for one in self.standing.told if "f1" in one]
        return bool(
            self.plan.patience and said and len(said) - 1 - int(np.argmax(said)) >= self.plan.patience
        )

    def _teachable(self) -> bool:
        """Whether there is anything to learn from, and anything to learn."""
        return len(self.instances) > 0 and len(self._step.levels) > 0

    def _keep(self) -> None:
        """Write where training stands, unless that is written already."""
        if self.folder is not None and self._kept != self.standing.step:
            keep(self.folder, self.standing, self._marks)
            self._kept, self._kept_at = self.standing.step, time.monotonic()

    def _marked(self) -> Marks:
        """What a checkpoint must have been made with; an estimator is known by what it says of some instances."""
        given = {**vars(self.lesson)}
        if self.lesson.estimator is not None:
            rows = torch.arange(min(len(self.instances), 8), device=self.device)
            given["estimator"] = self.lesson.estimator(self.instances.histories(rows)) if len(rows) else None
        return marks_of(self.plan, self.seed, self.device, given)

    def _own_chance(self) -> AbstractContextManager[None]:
        """Dropout draws from the generator everybody shares: it is given back as it was."""
        devices = [torch.cuda.current_device()] if self.device.type == "cuda" else []
        return torch.random.fork_rng(devices, enabled=self.plan.dropout > 0)

    def _throw(self, seed: int) -> None:
        """Seed what dropout draws from, here and on no other device."""
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)

    def _time(self) -> dict[str, float]:
        return {} if self.clock is None else {"seconds": self.clock()}

    def _precision(self) -> torch.autocast:
        """bfloat16 where the plan says so, or where it is fast."""
        half = self.plan.precision == "bfloat16" or (
            self.plan.precision == "auto" and self.device.type == "cuda"
        )
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    def _seed(self, what: int, number: int) -> int:
        """A seed of its own for every use and step."""
        state = np.random.SeedSequence((self.seed, what, number)).generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(2))


def scorer_config(plan: TreePlan, shape: TreeShape, n_items: int) -> ScorerConfig:
    """The scorer a plan describes, for a tree of this shape."""
    return ScorerConfig(
        n_rows=n_rows(shape, n_items, plan.leaf_vectors),
        n_items=n_items if plan.history == "item" else 0,
        kind=plan.scorer,
        width=plan.width,
        hidden=plan.hidden,
        layers=plan.layers,
        windows=plan.windows,
        history=plan.history,
        pool=plan.pool,
        norm=plan.norm,
        output=plan.output,
        dropout=plan.dropout,
        spread=plan.spread,
    )


def quality(index: TreeIndex, cases: HeldOut, plan: TreePlan, k: int = 20) -> Mapping[str, float]:
    """Recall and F of the k best, without what was seen."""
    items, truth = answers(index, cases, k, plan.beam, product=plan.product), cases.relevant()
    hits, wanted = is_in(items, truth).sum(1), (truth >= 0).sum(1).clamp(min=1)
    return {
        "recall": float((hits / wanted).mean()),
        "f1": float((2 * hits / (k + wanted)).mean()),
        "distinct": float(len(torch.unique(items))),
    }


def _some(valid: HeldOut | None, seed: int, most: int = 1000) -> HeldOut | None:
    if valid is None or not len(valid):
        return None
    return valid.take(np.sort(np.random.default_rng(seed).permutation(len(valid))[:most]))
