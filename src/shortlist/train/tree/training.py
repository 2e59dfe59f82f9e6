"""The training loop of a tree: alternate between training the scorer and updating the tree; resumable."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ShortlistError
from shortlist.index.tree import TreeIndex, TreeShape, by_category, by_vectors, grow, n_rows, random_order
from shortlist.models.nodes import (
    AttentionScorer,
    ScorerConfig,
    ScorerSettings,
    load_weights,
    make_scorer,
    values_of,
)
from shortlist.progress import Progress, silent
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for
from shortlist.train.loop.device import device_of
from shortlist.train.tree.checkpoint import (
    EvaluationEntry,
    RunId,
    TrainingState,
    UpdateEntry,
    has_checkpoint,
    load_checkpoint,
    run_id,
    save_checkpoint,
)
from shortlist.train.tree.embedding_init import init_embeddings, item_vectors
from shortlist.train.tree.instances import drop_history, instances_of
from shortlist.train.tree.optimizer import TreeOptimizer
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.rectify import Estimator, Labels, label_weights, rectified
from shortlist.train.tree.step import TrainStep, first_trained_level
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.updates.update import updated_tree
from shortlist.train.tree.validation import quality, validation_sample

Clock = Callable[[], float]


class TreeTraining:
    """Alternating training; every random number depends on the seed and the step only.

    With a `folder`, a checkpoint is written there every `checkpoint_every` steps (0: after every evaluation), after a
    step when the last one is `checkpoint_seconds` old, and at the end of `run`. A checkpoint of the same training in
    that folder is resumed. Training stops at the first step after the `deadline`, a value of `time.monotonic`.
    """

    def __init__(
        self,
        plan: TreePlan,
        training_set: TreeTrainingSet,
        seed: int = 0,
        device: str = "auto",
        progress: Progress = silent,
        clock: Clock | None = None,
        folder: Path | None = None,
        checkpoint_every: int = 0,
        checkpoint_seconds: float = math.inf,
        deadline: float = math.inf,
    ) -> None:
        self.plan, self.training_set, self.seed = plan, training_set, seed
        self.progress, self.clock = progress, clock
        self.deadline, self.out_of_time = deadline, False
        self.device = device_of(device)
        plan.check_device(self.device.type)
        self.instances = instances_of(
            training_set.events, sum(plan.windows), plan.min_history, plan.instances, self.device, plan.ahead
        )
        self.folder, self.checkpoint_every = folder, checkpoint_every or plan.eval_every
        self.checkpoint_seconds, self._saved_at = checkpoint_seconds, time.monotonic()
        self._run = self._run_id() if folder else {}
        self.state = (
            load_checkpoint(folder, plan, self.device, self._run)
            if folder and has_checkpoint(folder)
            else self._initial_state()
        )
        if plan.compiled and isinstance(scorer := self.state.index.scorer, AttentionScorer):
            scorer.layers.after = torch.compile(scorer.layers.after, dynamic=True)  # type: ignore[method-assign]
        self._saved_step = -1
        self._valid = validation_sample(training_set.valid, seed)
        self._labels: Labels | None = None
        self._permutation = (-1, torch.empty(0))  # epoch, order of the instances in it
        self._step = TrainStep(plan, self.state.index)
        self._generator = torch.Generator(self.device)
        size = min(plan.batch_size, len(self.instances))
        self._batch = torch.zeros(size, dtype=torch.int64, device=self.device)  # instances of the step
        self._stream = stream_for(self.device) if self._recordable() else None
        self._replay: Callable[[], None] | None = None

    def run(self, until: int | None = None) -> TreeIndex:
        """Train up to a step, or to the end; returns the index with the best validation F1."""
        last = self.plan.total if until is None else min(until, self.plan.total)
        with self._fork_rng(), on(self._stream):
            while self.state.step < last and self._trainable() and not self._should_stop():
                self._between_rounds()
                self._one_step()
                self.out_of_time = time.monotonic() >= self.deadline and self.state.step < last
                whole = self.state.step % self.plan.eval_every == 0 or self.state.step == self.plan.total
                if whole or self.out_of_time:
                    self._evaluate()
                overdue = time.monotonic() - self._saved_at >= self.checkpoint_seconds
                if overdue or self.state.step % self.checkpoint_every == 0:
                    self._save()
                self.progress("tree", self.state.step, self.plan.total)
        self._replay = None  # a recorded graph holds much memory, and this object
        self._save()
        return self.chosen()

    def chosen(self) -> TreeIndex:
        """The best index so far, in eval mode."""
        index, state = self.state.index, self.state
        if state.best_order is not None:
            tree = replace(index.tree, item_of_leaf=state.best_order)
            scorer = make_scorer(index.scorer.config, self.seed).to(self.device)
            scorer.load_state_dict(state.best)
            index = replace(index, tree=tree, scorer=scorer)
        index.scorer.eval()
        return index

    def _initial_state(self) -> TrainingState:
        plan, n_items = self.plan, self.training_set.events.n_items
        branch = plan.branch or max(n_items, 2)
        order = self.training_set.order if self.training_set.order is not None else self._order(branch)
        tree = grow(order, n_items, branch, plan.spare_leaves).to(self.device)
        config = scorer_config(plan, tree.shape, n_items)
        scorer = make_scorer(config, self.seed).to(self.device)
        index = TreeIndex(tree, scorer, plan.leaf_vectors, first_trained_level(plan, tree.shape))
        if self.training_set.weights is not None:
            load_weights(scorer, self.training_set.weights)
        elif plan.embedding_init == "pifa":
            vectors = item_vectors(self.training_set.events, plan.width, self.seed)
            init_embeddings(index, vectors, plan.spread)
        return TrainingState(index, TreeOptimizer(plan, scorer), torch.zeros(2, device=self.device))

    def _order(self, branch: int) -> Tensor:
        """Items of the first tree, in the order of leaves."""
        n_items, plan = self.training_set.events.n_items, self.plan
        if plan.order == "vectors":
            if self.training_set.vectors is None:
                raise ShortlistError("tree: the order 'vectors' needs item vectors, got none")
            return by_vectors(self.training_set.vectors, branch, self.seed)
        if plan.order == "random" or self.training_set.categories is None:
            return random_order(n_items, self.seed)
        return by_category(self.training_set.categories, self.seed, shuffle=plan.order == "category")

    def _between_rounds(self) -> None:
        """Update the tree, and reset the optimizer if the plan says so, before each round but the first."""
        step, plan = self.state.step, self.plan
        if step == 0 or step % plan.steps:
            return
        self._replay = None
        if plan.update != "none" and self.state.updates < step // plan.steps:
            with self._precision():
                index, report = updated_tree(plan, self.state.index, self.instances, self._seed(1, step))
            self.state.index, self.state.updates = index, self.state.updates + 1
            self.state.log.append(UpdateEntry(step, report, self._seconds()))
            self._step, self._labels = TrainStep(plan, index), None
        if plan.restart:
            self.state.optimizer = TreeOptimizer(plan, self.state.index.scorer)

    def _recordable(self) -> bool:
        """Whether steps are replayed as a CUDA graph: all random numbers and all computation must be our own."""
        plan, lazy = self.plan, self.state.index.scorer.lazy
        estimates = plan.labels == "rectified" and plan.ahead > 1  # calls a foreign estimator in every step
        other = plan.dropout or plan.compiled or lazy or estimates or self.training_set.lists
        return self.device.type == "cuda" and plan.cuda_graph and not other

    def _one_step(self) -> None:
        state = self.state
        state.index.scorer.train()
        self._generator.manual_seed(self._seed(0, state.step))
        if self.plan.dropout:
            self._seed_dropout(self._seed(2, state.step))
        self._batch.copy_(self._rows())
        self._rectify()
        state.optimizer.set_learning_rate(state.step)
        if self._replay is None:
            self._replay = (
                Recorded(self._forward_backward, self._stream, self._generator)
                if self._stream
                else self._forward_backward
            )
        self._replay()
        state.since += 1
        state.step += 1

    def _forward_backward(self) -> None:
        """Loss, gradients and weight update of the current batch, all on the device."""
        rows, generator = self._batch, self._generator
        histories = self.instances.histories(rows)
        events = self.instances.events_ahead(rows, self.plan.ahead, generator)
        targets = self.instances.items[events].to(torch.int64)
        weights = self._weights(rows, histories, targets)
        if self.instances.strengths is not None:
            weights = weights * example_weights(self.instances.strengths[events])[:, None]
        histories = drop_history(histories, self.plan.history_dropout, generator)
        with self._precision():
            loss, skipped = self._step.loss(histories, targets, weights, generator)
            if (lists := self.training_set.lists) is not None:
                loss = loss + lists.loss(self._step, self.state.step)
        self.state.optimizer.step(loss)
        self.state.losses += torch.stack([loss.detach(), skipped])

    def _rows(self) -> Tensor:
        """The instances of this step: an epoch visits each at most once, in random order, in full batches."""
        count, size = len(self.instances), min(self.plan.batch_size, len(self.instances))
        epoch, batch = divmod(self.state.step, count // size)
        if self._permutation[0] != epoch:
            generator = torch.Generator(self.device).manual_seed(self._seed(3, epoch))
            self._permutation = (epoch, torch.randperm(count, generator=generator, device=self.device))
        return self._permutation[1][batch * size : (batch + 1) * size]

    def _weights(self, rows: Tensor, histories: Tensor, targets: Tensor) -> Tensor:
        """The label of each level of each instance [U, L]; sampled targets are rectified in every step."""
        tree, levels = self.state.index.tree, self._step.levels
        if self.plan.labels != "rectified":
            return torch.ones((len(rows), len(levels)), device=self.device)
        if self._labels is not None:
            return self._labels.weights(rows, levels)
        with torch.no_grad(), self._precision():
            scores = self._estimator()(histories)
            return label_weights(scores, targets, tree, levels, self.plan.rectify)

    def _rectify(self) -> None:
        """Labels of all instances under a new tree, where targets are fixed."""
        plan = self.plan
        if plan.labels == "rectified" and plan.ahead == 1 and self._labels is None:
            with torch.no_grad(), self._precision():
                tree = self.state.index.tree
                self._labels = rectified(tree, self.instances, self._estimator(), plan.rectify)

    def _estimator(self) -> Estimator:
        if self.training_set.estimator is None:
            raise ShortlistError("tree: rectified labels need an estimator of probabilities, got none")
        return self.training_set.estimator

    def _evaluate(self) -> None:
        """Log loss and validation metrics; the only place where the host waits for the device."""
        loss, skipped = (self.state.losses / max(self.state.since, 1)).tolist()
        self.state.losses.zero_()
        self.state.since = 0
        if not np.isfinite(loss):
            raise ShortlistError(
                f"tree: the loss is {loss} at step {self.state.step}; lower the learning rate"
            )
        entry = EvaluationEntry(self.state.step, loss, skipped, self._seconds())
        if self._valid is not None:
            self.state.index.scorer.eval()
            with self._precision():
                measured = quality(self.state.index, self._valid, self.plan)
            entry = replace(entry, **vars(measured))
            if measured.f1 > max(self.validation, default=-math.inf):
                weights = self.state.index.scorer.state_dict()
                self.state.best = {name: one.detach().clone() for name, one in weights.items()}
                self.state.best_order = self.state.index.tree.item_of_leaf
        self.state.log.append(entry)

    @property
    def validation(self) -> list[float]:
        """Validation F1 of every evaluation so far."""
        evaluations = [entry for entry in self.state.log if isinstance(entry, EvaluationEntry)]
        return [entry.f1 for entry in evaluations if entry.f1 is not None]

    def _should_stop(self) -> bool:
        """Whether the time is over, or F1 has not improved for `patience` evaluations."""
        f1 = self.validation
        return self.out_of_time or bool(
            self.plan.patience and f1 and len(f1) - 1 - int(np.argmax(f1)) >= self.plan.patience
        )

    def _trainable(self) -> bool:
        """Whether there are instances and levels to train."""
        return len(self.instances) > 0 and len(self._step.levels) > 0

    def _save(self) -> None:
        """Write a checkpoint, unless this step is saved already."""
        if self.folder is not None and self._saved_step != self.state.step:
            save_checkpoint(self.folder, self.state, self._run)
            self._saved_step, self._saved_at = self.state.step, time.monotonic()

    def _run_id(self) -> RunId:
        """What a checkpoint must have been made with; an estimator is identified by its scores of some instances."""
        lists = self.training_set.lists
        data = {**vars(self.training_set), "lists": None if lists is None else lists.fingerprint}
        if self.training_set.estimator is not None:
            rows = torch.arange(min(len(self.instances), 8), device=self.device)
            scores = self.training_set.estimator(self.instances.histories(rows)) if len(rows) else None
            data["estimator"] = scores
        return run_id(self.plan, self.seed, self.device, data)

    def _fork_rng(self) -> AbstractContextManager[None]:
        """Dropout uses torch's global generator: restore it afterwards."""
        devices = [torch.cuda.current_device()] if self.device.type == "cuda" else []
        return torch.random.fork_rng(devices, enabled=self.plan.dropout > 0)

    def _seed_dropout(self, seed: int) -> None:
        """Seed the generator of dropout, on this device only."""
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)

    def _seconds(self) -> float | None:
        return None if self.clock is None else self.clock()

    def _precision(self) -> torch.autocast:
        """bfloat16 if the plan says so; `auto` means on a GPU."""
        half = self.plan.precision == "bfloat16" or (
            self.plan.precision == "auto" and self.device.type == "cuda"
        )
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    def _seed(self, purpose: int, number: int) -> int:
        """An independent seed for every purpose and step."""
        state = np.random.SeedSequence((self.seed, purpose, number)).generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(2))


def example_weights(strengths: Tensor) -> Tensor:
    """Weights [U] for a mean over all events that is one over those with a strength above 0."""
    return strengths * (len(strengths) / (strengths > 0).sum().clamp(min=1))


def scorer_config(plan: TreePlan, shape: TreeShape, n_items: int) -> ScorerConfig:
    """The scorer of a plan, for a tree of this shape."""
    return ScorerConfig(
        n_rows=n_rows(shape, n_items, plan.leaf_vectors),
        n_items=n_items if plan.history == "item" else 0,
        kind=plan.scorer,
        **values_of(plan, ScorerSettings),
    )
