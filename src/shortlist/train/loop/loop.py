"""The training loop that all trainers share: sample, forward, loss, step, report."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shortlist.errors import ShortlistError
from shortlist.progress import Progress, note
from shortlist.train.loop.checkpoint import Checkpoints, LoopState
from shortlist.train.loop.convergence import best_of
from shortlist.train.loop.cuda_graph import Recorded, on, release_memory, stream_for
from shortlist.train.loop.lazy_adamw import LazyAdamW, clip_gradients
from shortlist.train.loop.products import fast_products

MAX_NORM = 5.0  # of the gradients of a step
Clock = Callable[[], float]
Batches = Callable[[int], Iterator[Callable[[], Tensor]]]
"""Epoch -> losses to compute, one per step. A step must be finished before the next one is requested."""


@dataclass(frozen=True)
class Loop:
    """AdamW for a number of epochs; with validation it stops after `patience` epochs without improvement.

    It stops at the first step after `minutes`, 0 = no limit; the part of an epoch counts as an epoch.
    """

    epochs: int
    learning_rate: float
    weight_decay: float
    patience: int
    minutes: float = 0.0
    settle: int = 0  # first epochs that do not count as epochs without improvement
    max_norm: float = MAX_NORM  # of the gradients of a step

    def run(
        self,
        model: nn.Module,
        batches: Batches,
        steps: int,
        task: str,
        progress: Progress,
        validate: Callable[[], float] | None = None,
        metric: str = "",
        folder: Path | None = None,
    ) -> list[float]:
        """Train in place and return the validation metric after each epoch; the weights of the best epoch are kept."""
        state = LoopState(model, self.optimizer(model))
        return self.train(state, batches, steps, task, progress, validate, metric, folder).validation

    def train(
        self,
        state: LoopState,
        batches: Batches,
        steps: int,
        task: str,
        progress: Progress,
        validate: Callable[[], float] | None = None,
        metric: str = "",
        folder: Path | None = None,
        clock: Clock = time.monotonic,
    ) -> LoopState:
        """Continue a training in place up to its last epoch, and keep the weights of the best epoch.

        Of equally good epochs the first is the best. `metric` is its name in progress reports. With a `folder`,
        checkpoints are written there, and the same training continues from them.
        """
        model = state.model
        begin = clock()
        checkpoints = Checkpoints(folder, model, task=task, steps=steps, **self._settings())
        checkpoints.restore(state)
        stepper = _Stepper(model, state.optimizer, self.max_norm)
        while not self._ended(state):
            note(progress, task, self._note(state, metric))
            model.train()
            with fast_products():
                self._epoch(state, stepper, batches, steps, partial(progress, task), lambda: clock() - begin)
            # Read once per epoch: reading a number from a GPU waits for all work queued before it.
            _check_finite(stepper.last.item(), task, state.epoch)
            model.eval()
            state.epoch += 1
            if validate is not None:
                _validate(state, validate)
            ended = self._ended(state)
            checkpoints.save(state, clock() - begin, last=ended)
        stepper.close()
        state.seconds += clock() - begin
        if state.best:
            model.load_state_dict(state.best)
        progress(task, self.epochs * steps, self.epochs * steps)
        model.eval()
        return state

    def _epoch(
        self,
        state: LoopState,
        stepper: "_Stepper",
        batches: Batches,
        steps: int,
        progress: Callable[[int, int], None],
        seconds: Clock,
    ) -> None:
        """All steps of an epoch, or those before the time is over; at least one."""
        done = state.epoch * steps
        with on(stepper.stream):
            for step, loss_of in enumerate(batches(state.epoch)):
                stepper.step(loss_of)
                progress(done + step + 1, self.epochs * steps)
                if self.minutes and state.seconds + seconds() >= 60 * self.minutes:
                    state.out_of_time = True
                    return

    def _settings(self) -> dict[str, Any]:
        """What a checkpoint must agree with; the usual norm is left out, as in checkpoints of older versions."""
        return {name: one for name, one in asdict(self).items() if (name, one) != ("max_norm", MAX_NORM)}

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """AdamW for all weights of a model."""
        fused = next(model.parameters()).is_cuda or None  # one kernel for all weights on a GPU
        kind = torch.optim.AdamW if fused else LazyAdamW
        return kind(
            model.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=fused,
            capturable=bool(fused),
        )

    def _ended(self, state: LoopState) -> bool:
        """Whether all epochs are done, the time is over, or the metric has not improved for `patience` epochs.

        The first `settle` epochs do not count: some models stand still before they learn more than popularity.
        """
        values = state.validation
        waited = len(values) - 1 - max(best_of(values), self.settle - 1) if values else 0
        over = state.epoch >= self.epochs or state.out_of_time
        return over or (waited > 0 and waited >= self.patience)

    def _note(self, state: LoopState, metric: str) -> str:
        """The epoch that begins, and the metric of the one before."""
        value = f", {metric} {state.validation[-1]:.4f}" if metric and state.validation else ""
        return f"epoch {state.epoch + 1} of {self.epochs}{value}"


def _validate(state: LoopState, validate: Callable[[], float]) -> None:
    """Compute the metric, and keep the weights if it is the best so far."""
    state.validation.append(validate())
    if best_of(state.validation) == len(state.validation) - 1:
        state.best = copy.deepcopy(state.model.state_dict())


class _Stepper:
    """Optimizer steps; on a GPU a loss that is the same function as before is recorded and replayed."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float = MAX_NORM
    ) -> None:
        self.model, self.optimizer, self.max_norm = model, optimizer, max_norm
        device = next(model.parameters()).device
        self.last, self.stream = torch.zeros((), device=device), stream_for(device)
        self.recorded: tuple[Callable[[], Tensor], Recorded] | None = None

    def step(self, loss_of: Callable[[], Tensor]) -> None:
        if self.stream is None:
            self._step(loss_of)
            return
        if self.recorded is None or self.recorded[0] is not loss_of:
            self.recorded = loss_of, Recorded(lambda: self._step(loss_of), self.stream)
        self.recorded[1]()

    def close(self) -> None:
        """Return the memory of a recorded step to the GPU, for the next training and for other processes."""
        if self.stream is not None:
            self.recorded = None
            self.optimizer.zero_grad(set_to_none=True)  # gradients are in the memory of the recorded step
            release_memory()

    def _step(self, loss_of: Callable[[], Tensor]) -> None:
        loss = loss_of()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self.model, self.max_norm)
        self.optimizer.step()
        self.last.copy_(loss.detach())


def _check_finite(loss: float, task: str, epoch: int) -> None:
    if not math.isfinite(loss):
        raise ShortlistError(f"{task}: the loss is {loss} after epoch {epoch + 1}; lower the learning rate")


def shuffled(count: int, batch_size: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Positions 0..count-1 in random batches."""
    order = generator.permutation(count)
    for start in range(0, count, batch_size):
        yield order[start : start + batch_size]
