"""Gradient training of a mixture of nominators, with restarts and early stopping."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import PoolMixture, effective_experts
from shortlist.progress import Progress, silent
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import best_of
from shortlist.train.loop.lazy_adamw import LazyAdamW
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.pools.fitting.objective import Batch, Objective
from shortlist.train.pools.fitting.settings import PoolTraining
from shortlist.train.pools.fitting.triples import Triples

CHUNK = 50_000  # examples at a time outside training steps
WATCHED = 10_000  # examples on which the use of the nominators is measured after every epoch


@dataclass(frozen=True, eq=False)
class PoolFit:
    """A trained mixture and how its training went."""

    model: PoolMixture
    value: float  # of the objective on validation examples, training ones without any; larger is better
    validation: tuple[float, ...]  # the same after every epoch, empty without validation examples
    epochs: int  # that were run
    steps: int  # that were run
    restart: int  # that was best
    load: tuple[tuple[float, ...], ...]  # mean weights of the nominators after every epoch [E][N]

    @property
    def effective_experts(self) -> tuple[float, ...]:
        """How many equally used nominators would be as even, after every epoch."""
        return tuple(effective_experts(torch.tensor(self.load)).tolist())


def fit_sgd(
    model: PoolMixture,
    triples: Triples,
    valid: Triples | None = None,
    training: PoolTraining | None = None,
    progress: Progress = silent,
    folder: Path | None = None,
) -> PoolFit:
    """A trained copy of the mixture, on the device of the examples.

    The first training begins with the values that the mixture has, each further restart with new ones. The epoch with
    the best objective on `valid` is kept, and so is the best restart. With a `folder` of checkpoints an interrupted
    training continues; its `load` then begins there.
    """
    training = training or PoolTraining()
    check(model, triples, valid)
    kept: PoolFit | None = None
    for restart in range(training.restarts):
        torch.manual_seed(training.seed + 7919 * restart)
        own = copy.deepcopy(model)
        if restart:  # on a CPU, so that initial values do not depend on the device
            own = own.cpu().reset()
        fit = _fit(own.to(triples.device), triples, valid, training, restart, progress, folder)
        kept = fit if kept is None or fit.value > kept.value else kept
    assert kept is not None
    return kept


def batches_of(
    triples: Triples, batch_size: int, seed: int, loss_of: Callable[[Batch], Tensor]
) -> tuple[Callable[[int], Iterator[Callable[[], Tensor]]], int]:
    """Random batches of equal size, and their number in an epoch; the remainder is left out, another in every epoch.

    Every step is the same function of the same memory, which a GPU records once.
    """
    size = min(batch_size, len(triples))
    at = torch.zeros(size, dtype=torch.int64, device=triples.device)
    generator = torch.Generator()

    def step() -> Tensor:
        return loss_of(batch_at(triples, at))

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        generator.manual_seed(1_000_003 * seed + epoch)
        order = torch.randperm(len(triples), generator=generator).to(triples.device)
        for start in range(0, len(order) - size + 1, size):
            at.copy_(order[start : start + size])
            yield step

    return batches, len(triples) // size


def batch_at(triples: Triples, at: Tensor | slice) -> Batch:
    """The examples at these positions."""
    weights = None if triples.weights is None else triples.weights[at]
    return Batch(triples.contexts[triples.rows[at]], triples.items[at], triples.rewards[at], weights)


def parts_of(triples: Triples, size: int = CHUNK) -> Iterator[Batch]:
    """All examples in their order, a part at a time."""
    for start in range(0, len(triples), size):
        yield batch_at(triples, slice(start, start + size))


def optimizer_of(model: PoolMixture, training: PoolTraining) -> torch.optim.Optimizer:
    """Adam with the gate's own learning rate, and weight decay of item vectors alone."""
    groups: dict[str, list[Tensor]] = {"gate": [], "items": [], "rest": []}
    for name, weights in model.named_parameters():
        if weights.requires_grad:
            own = "gate" if name.startswith("gate.") else "items" if name.endswith(".items") else "rest"
            groups[own].append(weights)
    if not any(groups.values()):
        raise ConfigError(
            "pools: the mixture has nothing to train: all experts are frozen, and so is the gate"
        )
    rates = {"gate": training.gate_rate * training.learning_rate}
    decay = {"items": training.weight_decay}
    cuda = next(model.parameters()).is_cuda
    kind = torch.optim.AdamW if cuda else LazyAdamW
    made = [
        {"params": own, "lr": rates.get(name, training.learning_rate), "weight_decay": decay.get(name, 0.0)}
        for name, own in groups.items()
        if own
    ]
    return kind(made, lr=training.learning_rate, fused=cuda or None, capturable=cuda)


def _fit(
    model: PoolMixture,
    triples: Triples,
    valid: Triples | None,
    training: PoolTraining,
    restart: int,
    progress: Progress,
    folder: Path | None,
) -> PoolFit:
    objective = Objective(model, training)
    plain, steps = batches_of(triples, training.batch_size, training.seed + 7919 * restart, objective.loss)
    widened = training.widening > 1 or training.entropy > 0
    settle = math.ceil(training.annealed * training.epochs) if widened else 0
    loop = Loop(training.epochs, training.learning_rate, 0.0, training.patience, settle=settle)
    load: list[tuple[float, ...]] = []
    watched = triples.take(torch.arange(min(len(triples), WATCHED), device=triples.device))
    state = LoopState(objective, optimizer_of(model, training))
    loop.train(
        state,
        _annealed(plain, steps, objective),
        steps,
        f"mixture {restart + 1}" if training.restarts > 1 else "mixture",
        progress,
        lambda: _after_epoch(objective, valid, watched, load, state.epoch),
        folder=None if folder is None else folder.with_name(f"{folder.name}-{restart + 1}"),
    )
    model.widening.fill_(1.0)
    validation = tuple(state.validation) if valid is not None else ()
    value = validation[best_of(validation)] if validation else _value(objective, triples)
    return PoolFit(model, value, validation, state.epoch, state.epoch * steps, restart, tuple(load))


def _annealed(batches: Batches, steps: int, objective: Objective) -> Batches:
    """The same batches, with sigma and the weight of the entropy as they are at each step."""
    training, model = objective.settings, objective.model
    last = max(training.annealed * training.epochs * steps, 1e-9)

    def annealed(epoch: int) -> Iterator[Callable[[], Tensor]]:
        for number, step in enumerate(batches(epoch)):
            left = max(0.0, 1 - (epoch * steps + number) / last)
            model.widening.fill_(1 + (training.widening - 1) * left)
            objective.entropy.fill_(training.entropy * left)
            yield step

    return annealed


def _after_epoch(
    objective: Objective, valid: Triples | None, watched: Triples, load: list[tuple[float, ...]], epoch: int
) -> float:
    """The validation value with the final sigma; without validation examples the number of the epoch, so that the last
    is kept.
    """
    objective.model.widening.fill_(1.0)
    load.append(_load(objective.model, watched))
    return float(epoch) if valid is None else _value(objective, valid)


@torch.no_grad()
def _load(model: PoolMixture, triples: Triples) -> tuple[float, ...]:
    total = sum(model.gate(part.contexts, part.items).exp().sum(0) for part in parts_of(triples))
    assert isinstance(total, Tensor)
    return tuple((total / len(triples)).tolist())


@torch.no_grad()
def _value(objective: Objective, triples: Triples) -> float:
    """Minus the objective on all examples."""
    total, weight = 0.0, 0.0
    for part in parts_of(triples):
        own = float(len(part.items) if part.weights is None else part.weights.sum())
        total += float(objective.value(part)) * own
        weight += own
    return -total / weight


def check(model: PoolMixture, triples: Triples, valid: Triples | None) -> None:
    """Refuse examples that a mixture cannot be trained on."""
    if not len(triples) or (valid is not None and not len(valid)):
        raise DataError("pools: expected at least one training example, and one for validation; got none")
    for one in (triples, valid):
        if one is not None and one.weights is not None and not bool((one.weights > 0).any()):
            raise DataError("pools: expected an example with a weight above 0, got none")
        if one is not None:
            one.check(getattr(model.experts, "n_features", None), model.n_items)
