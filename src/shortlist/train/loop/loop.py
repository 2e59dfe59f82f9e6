"""The flat loop all trainers share: sample, forward, loss, step, tell."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shortlist.errors import ShortlistError
from shortlist.progress import Progress
from shortlist.train.loop.convergence import best_of
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for

Batches = Callable[[int], Iterator[Callable[[], Tensor]]]
"""Epoch -> losses to compute, one per step. A step must be done before the next is asked for."""


@dataclass(frozen=True)
class Loop:
    """How long and how fast to learn; with a judge, until it has not been pleased for `patience` epochs."""

    epochs: int = 10
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    patience: int = 2

    def run(
        self,
        model: nn.Module,
        batches: Batches,
        steps: int,
        what: str,
        progress: Progress,
        judge: Callable[[], float] | None = None,
    ) -> list[float]:
        """Train in place and return what the judge said after each epoch; the weights of the best epoch stay.

        Of epochs that are judged equal the first is the best.
        """
        fused = next(model.parameters()).is_cuda or None  # one launch for all weights where launches cost
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=fused,
            capturable=bool(fused),
        )
        best, said = copy.deepcopy(model.state_dict()), list[float]()
        turns = _Turns(model, optimizer)
        for epoch in range(self.epochs):
            model.train()
            with on(turns.stream):
                for step, loss_of in enumerate(batches(epoch)):
                    turns.step(loss_of)
                    progress(what, epoch * steps + step + 1, self.epochs * steps)
            # Read once per epoch: reading a number off a GPU waits for all that was asked of it.
            _check_finite(turns.last.item(), what, epoch)
            model.eval()
            if judge is None:
                continue
            said.append(judge())
            waited = len(said) - 1 - best_of(said)
            if waited == 0:
                best = copy.deepcopy(model.state_dict())
            elif waited >= self.patience:
                break
        if judge is not None:
            model.load_state_dict(best)
        progress(what, self.epochs * steps, self.epochs * steps)
        model.eval()
        return said


class _Turns:
    """Steps of an optimizer; on a GPU a loss that comes as the very same function again is recorded and replayed."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        device = next(model.parameters()).device
        self.last, self.stream = torch.zeros((), device=device), stream_for(device)
        self.again: tuple[Callable[[], Tensor], Recorded] | None = None

    def step(self, loss_of: Callable[[], Tensor]) -> None:
        if self.stream is None:
            self._step(loss_of)
            return
        if self.again is None or self.again[0] is not loss_of:
            self.again = loss_of, Recorded(lambda: self._step(loss_of), self.stream)
        self.again[1]()

    def _step(self, loss_of: Callable[[], Tensor]) -> None:
        loss = loss_of()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.last.copy_(loss.detach())


def _check_finite(loss: float, what: str, epoch: int) -> None:
    if not math.isfinite(loss):
        raise ShortlistError(f"{what}: the loss is {loss} after epoch {epoch + 1}; lower the learning rate")


def shuffled(count: int, batch: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Positions 0..count-1 in random batches."""
    order = generator.permutation(count)
    for start in range(0, count, batch):
        yield order[start : start + batch]
