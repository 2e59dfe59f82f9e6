"""Train one arm: all temperatures and learning rates of the budget, of which the best on validation counts."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from shortlist.lab.experiments.full_stage.arms import PRERANK, Arm
from shortlist.lab.experiments.full_stage.sizes import Budget
from shortlist.lab.experiments.full_stage.stacked_models import StackedFactors, StackedTowers
from shortlist.lab.experiments.full_stage.stage_data import StageData
from shortlist.progress import Progress, silent
from shortlist.train.loop.cuda_graph import Recorded, on, release_memory, stream_for
from shortlist.train.objectives.instances import InstanceBatch, InstanceSampler
from shortlist.train.objectives.relabel import LADDERS


@dataclass
class BestSetting:
    """The model with the highest precision on validation so far, and the best of every setting."""

    value: float = -1.0
    temperature: float = 0.0
    rate: float = 0.0
    epoch: int = 0
    users: Tensor | None = None  # [U, D]
    items: Tensor | None = None  # [I, D]
    values: dict[str, dict[str, float]] = field(default_factory=dict)  # by temperature, then by learning rate
    steps: int = 0

    def offer(self, value: float, temperature: float, rate: float, epoch: int, *vectors: Tensor) -> None:
        """Keep the vectors of users and items if they are the best so far."""
        rates = self.values.setdefault(f"{temperature:g}", {})
        rates[f"{rate:g}"] = max(value, rates.get(f"{rate:g}", -1.0))
        if value > self.value:
            self.value, self.temperature, self.rate, self.epoch = value, temperature, rate, epoch
            self.users, self.items = (one.clone() for one in vectors)

    @property
    def scores(self) -> Tensor:
        """Scores of all users and items [U, I]."""
        assert self.users is not None
        assert self.items is not None
        return self.users @ self.items.T


def train_arm(
    arm: Arm, data: StageData, budget: Budget, seed: int, progress: Progress = silent
) -> BestSetting:
    """The best model of an arm; every setting gets the same instances in the same order."""
    log = data.splits.train.log(data.grids.n_items)
    sampler = InstanceSampler(log, dict(arm.negatives), LADDERS[arm.ladder](log.n_stages), seed=seed)
    sampler = replace(sampler, batch_size=max(len(sampler), 1))
    size = min(budget.batch_size, len(sampler))
    stacks = [_Stack(arm, data, budget, rate, seed, sampler, size) for rate in budget.rates]
    best, stream = BestSetting(), stream_for(data.device)
    for epoch in range(1, budget.epochs + 1):
        with on(stream):
            for batch in _steps(sampler, epoch, size, data.device):
                for stack in stacks:
                    stack.step(batch)
                best.steps += 1
        if epoch % budget.every == 0 or epoch == budget.epochs:
            for stack in stacks:
                stack.validate(data, best, epoch)
        progress(arm.name, epoch, budget.epochs)
        if budget.patience and epoch - best.epoch >= budget.patience * budget.every:
            break
    if stream is not None:
        stacks.clear()
        release_memory()
    return best


def _steps(sampler: InstanceSampler, epoch: int, size: int, device: torch.device) -> Iterator[InstanceBatch]:
    """Batches of equal size, from one transfer per epoch; the rest of an epoch, less than a batch, is left out."""
    (whole,) = sampler.batches(epoch)
    moved = InstanceBatch(*(one.to(device) for one in vars(whole).values()))
    for start in range(0, len(whole) - size + 1, size):
        yield _part(moved, slice(start, start + size))


def _part(batch: InstanceBatch, rows: slice) -> InstanceBatch:
    return InstanceBatch(*(one[rows] for one in vars(batch).values()))


class _Stack(nn.Module):
    """The models of one learning rate, one per temperature, with the next stage's where the objective needs it."""

    def __init__(
        self,
        arm: Arm,
        data: StageData,
        budget: Budget,
        rate: float,
        seed: int,
        sampler: InstanceSampler,
        size: int,
    ) -> None:
        super().__init__()
        self.rate, self.temperatures, self.joint = rate, budget.temperatures, arm.joint
        kinds = [StackedTowers if data.stage == PRERANK else StackedFactors] + [StackedTowers] * arm.joint
        shape = data.grids.n_users, data.grids.n_items, budget.width, budget.temperatures
        self.stages = nn.ModuleList([kind(*shape, seed + at) for at, kind in enumerate(kinds)])
        objective = arm.make_objective(sampler.relevant_from)
        self.loss, self.values = objective.loss, objective.values
        self.log_a = None if objective.log_a is None else _one_per_model(objective.log_a, self.temperatures)
        self.to(data.device)
        on_gpu = data.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=rate, weight_decay=0.0, fused=True, capturable=on_gpu
        )
        self.input = _empty(size, sampler.width, data.device)
        stream = stream_for(data.device)
        self.recorded = None if stream is None else Recorded(self._update, stream)

    def step(self, batch: InstanceBatch) -> None:
        """One step of every model; on a GPU a recorded one."""
        for own, new in zip(vars(self.input).values(), vars(batch).values(), strict=True):
            own.copy_(new)
        (self.recorded or self._update)()

    def _update(self) -> None:
        loss = self._losses(self.input)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _losses(self, batch: InstanceBatch) -> Tensor:
        """The sum over models of the mean loss of a list."""
        count = len(self.temperatures)
        scores = [stage(batch.users, batch.items).flatten(0, 1) for stage in self.stages]  # [G * B, L]
        labels, mask = batch.labels.repeat(count, 1), batch.mask.repeat(count, 1)
        learned = {} if self.log_a is None else {"log_a": self.log_a.repeat_interleave(len(batch), 0)}
        losses = self.loss(scores if self.joint else scores[0], labels, mask, **self.values, **learned)
        return losses.view(count, -1).mean(1).sum()

    def validate(self, data: StageData, best: BestSetting, epoch: int) -> None:
        """Offer every model of the stage."""
        users, items = self.stages[0].vectors()  # type: ignore[operator]
        for temperature, user, item in zip(self.temperatures, users, items, strict=True):
            best.offer(data.precision(user @ item.T), temperature, self.rate, epoch, user, item)


def _one_per_model(log_a: Tensor, temperatures: tuple[float, ...]) -> nn.Parameter:
    """What an objective learns itself, for every stacked model [G, ..]."""
    return nn.Parameter(log_a.detach().expand(len(temperatures), *log_a.shape).clone())


def _empty(size: int, width: int, device: torch.device) -> InstanceBatch:
    """Tensors that keep their addresses."""
    return InstanceBatch(
        torch.zeros(size, dtype=torch.int64, device=device),
        torch.zeros((size, width), dtype=torch.int64, device=device),
        torch.zeros((size, width), device=device),
        torch.ones((size, width), dtype=torch.bool, device=device),
        torch.ones((size, width), device=device),
    )
