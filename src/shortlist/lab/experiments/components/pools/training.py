"""Adam on all cells of a system at once, with the best values on validation rows kept for each cell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from shortlist.lab.experiments.components.pools.cells import CellModel, Parameters
from shortlist.lab.experiments.components.pools.data import VALID, SeedTables
from shortlist.lab.experiments.components.pools.methods import Method
from shortlist.lab.experiments.components.pools.objective import CellObjective
from shortlist.lab.experiments.components.pools.scoring import K, mean_quality
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for

BETAS, EPSILON = (0.9, 0.999), 1e-8
WEIGHT_DECAY = 1e-5  # of item vectors
ANNEALED = 1 / 3  # share of the steps in which sigma is widened


@dataclass(frozen=True)
class Schedule:
    """How long and with which learning rates systems are trained; the same for all."""

    steps: int = 1500
    evaluate_every: int = 100
    patience: int = 4  # evaluations in which no seed and no learning rate improves
    batch: int = 2000
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2)
    distilled_share: float = (
        0.2  # of the steps on distilled pools; more where the training before stops early
    )


@dataclass(eq=False)
class Kept:
    """The best values of every cell so far."""

    parameters: dict[str, Tensor]
    quality: Tensor  # [S, L] validation precision, minus 1 before the first evaluation
    step: Tensor  # [S, L]

    @classmethod
    def of(cls, parameters: Parameters) -> "Kept":
        seeds, rates = parameters["constant"].shape[0], parameters["constant"].shape[2]
        quality = parameters["constant"].new_full((seeds, rates), -1.0)
        return cls({name: one.detach().clone() for name, one in parameters.items()}, quality, quality.long())

    def add(self, parameters: Parameters, quality: Tensor, step: int) -> None:
        """Keep the cells that have improved."""
        better = quality > self.quality
        for name, one in self.parameters.items():
            own = better[:, None, :].reshape(better.shape[0], 1, better.shape[1], *(1,) * (one.ndim - 3))
            torch.where(own, parameters[name].detach(), one, out=one)
        self.quality = torch.where(better, quality, self.quality)
        self.step = torch.where(better, torch.full_like(self.step, step), self.step)


@dataclass(eq=False)
class Trainer:
    """The state of a training; `model` may be replaced between two calls of `run`."""

    method: Method
    model: CellModel
    tables: SeedTables
    rows: Tensor  # [S, A, c]
    parameters: dict[str, Tensor]
    schedule: Schedule
    done: int = 0
    watch: Callable[[int, Parameters], None] | None = None
    _columns: Tensor = field(init=False)
    _began: int = field(init=False)

    def __post_init__(self) -> None:
        self.kept = Kept.of(self.parameters)
        arms, examples = self.rows.shape[1:]
        self._columns = torch.zeros(
            min(max(1, self.schedule.batch // arms), examples), dtype=torch.int64, device=self.rows.device
        )
        self._began = self.done
        self._generator = torch.Generator().manual_seed(examples)

    def run(self, steps: int) -> None:
        """Some more steps with a new Adam, evaluated regularly."""
        for one in self.parameters.values():
            one.requires_grad_(True)
        adam = CellAdam(self.parameters, self.schedule.rates, self.method.gate_rate)
        objective = CellObjective.of(self.method, self.model, self.tables.deviation, self.parameters)
        usual = objective.sigma.clone()
        seeds = torch.arange(len(self.rows), device=self.rows.device)[:, None, None]

        def step() -> None:
            x, rewards = self.tables.drawn(self.rows[:, :, self._columns], seeds)
            adam.step(objective.loss(self.parameters, x, rewards).sum())

        stream = stream_for(self.rows.device)
        work: Callable[[], None] = step if stream is None else Recorded(step, stream)
        with on(stream):
            if self.done:
                self._evaluate()  # values from another training may already be the best
            for columns in self._all_columns(steps):
                self._columns.copy_(columns)
                left = max(0.0, 1 - self.done / (ANNEALED * self.schedule.steps))
                objective.sigma.copy_(usual * (1 + (self.method.widening - 1) * left))
                work()
                self.done += 1
                if self.done % self.schedule.evaluate_every == 0 and self._evaluate():
                    break

    @torch.no_grad()
    def _evaluate(self) -> bool:
        """Keep the cells that have improved; whether none has for long."""
        precision, _ = mean_quality(self.model, self.parameters, self.tables, VALID, K)
        self.kept.add(self.parameters, precision, self.done)
        if self.watch is not None:
            self.watch(self.done, self.parameters)
        waited = self.done - max(int(self.kept.step.max()), self._began)
        return waited >= self.schedule.patience * self.schedule.evaluate_every

    def _all_columns(self, steps: int) -> Tensor:
        """Places of the examples of every step [steps, M], the same for every item: one random order after another."""
        examples, size = self.rows.shape[2], len(self._columns)
        each = examples // size  # steps of an order; the rest is left out, another in every order
        orders = [
            torch.randperm(examples, generator=self._generator)[: each * size]
            for _ in range(-(-steps // each))
        ]
        return torch.cat(orders).view(-1, size)[:steps].to(self.rows.device)


class CellAdam:
    """Adam with a learning rate for each cell; item vectors decay."""

    def __init__(self, parameters: Mapping[str, Tensor], rates: tuple[float, ...], gate_rate: float) -> None:
        self.parameters = parameters
        first = next(iter(parameters.values()))
        self.rates = first.new_tensor(rates)
        self.gate_rate = gate_rate
        self.moments = {
            name: (torch.zeros_like(one), torch.zeros_like(one)) for name, one in parameters.items()
        }
        self.powers = first.new_ones(2)  # of the betas
        self.betas = first.new_tensor(BETAS)

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of the sum of the losses of all cells."""
        gradients = torch.autograd.grad(loss, list(self.parameters.values()))
        with torch.no_grad():
            self.powers.mul_(self.betas)
            for (name, one), gradient in zip(self.parameters.items(), gradients, strict=True):
                first, second = self.moments[name]
                first.lerp_(gradient, 1 - BETAS[0])
                second.lerp_(gradient.square(), 1 - BETAS[1])
                rate = self.rates.view(-1, *(1,) * (one.ndim - 3))
                if name.startswith("gate."):
                    rate = rate * self.gate_rate
                if name == "items":
                    one.mul_(1 - WEIGHT_DECAY * rate)
                corrected = (second / (1 - self.powers[1])).sqrt_().add_(EPSILON)
                one.sub_(rate * (first / (1 - self.powers[0])) / corrected)
