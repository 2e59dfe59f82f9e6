"""Train retrieval from a log: all settings of a budget, of which the best on held-out requests counts."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.lab.experiments.full_stage.arms import Arm
from shortlist.lab.experiments.full_stage.sizes import Budget
from shortlist.lab.experiments.full_stage.stacked_models import StackedFactors, StackedTowers
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for
from shortlist.train.objectives.from_log import take_requests
from shortlist.train.objectives.instances import InstanceBatch, InstanceSampler
from shortlist.train.objectives.stage_log import StageLog

HELD_OUT = 0.1  # share of the requests that choose the settings


def train_retrieval(
    log: StageLog, arm: Arm, budget: Budget, returned: int, seed: int, device: torch.device
) -> Tensor:
    """Scores of all users and items [U, I] from a log whose users are rows 0, 1, ..

    The settings with the highest recall of held-out positives among the `returned` best items are chosen.
    """
    fit, held = _split(log, seed)
    sampler = InstanceSampler(fit, dict(arm.negatives), batch_size=1 << 30, seed=seed)
    size = min(budget.batch_size, len(sampler))
    n_users = int(np.max(log.user_id)) + 1
    stacks = [_Stack(arm, n_users, sampler, budget, rate, seed, size, device) for rate in budget.rates]
    with on(stream_for(device)):
        for epoch in range(1, budget.epochs + 1):
            for batch in _steps(sampler, epoch, size, device):
                for stack in stacks:
                    stack.step(batch)
    grids = [grid for stack in stacks for grid in stack.grids()]
    return max(grids, key=lambda grid: _recall(grid, held, returned)) if len(grids) > 1 else grids[0]


def _split(log: StageLog, seed: int) -> tuple[StageLog, StageLog]:
    """Requests to fit and requests to choose with."""
    order = np.random.default_rng([seed, 34]).permutation(len(log.user_id))
    count = max(round(HELD_OUT * len(order)), 1)
    return take_requests(log, np.sort(order[count:])), take_requests(log, np.sort(order[:count]))


def _recall(scores: Tensor, log: StageLog, returned: int) -> float:
    """The share of shown positives among the `returned` best items of their user."""
    rows = np.flatnonzero(log.stratum == log.n_stages + 1)
    users, items = (
        torch.from_numpy(np.asarray(one, np.int64)).to(scores.device)
        for one in (log.user_id[log.request[rows]], log.item_id[rows])
    )
    cut = scores.topk(min(returned, scores.shape[1]), dim=1).values[:, -1]
    return float((scores[users, items] >= cut[users]).double().mean())


def _steps(sampler: InstanceSampler, epoch: int, size: int, device: torch.device) -> Iterator[InstanceBatch]:
    """Batches of equal size, from one transfer per epoch; less than a batch is left out."""
    (whole,) = sampler.batches(epoch)
    moved = [one.to(device) for one in vars(whole).values()]
    for start in range(0, len(whole) - size + 1, size):
        yield InstanceBatch(*(one[start : start + size] for one in moved))


class _Stack(nn.Module):
    """The models of one learning rate, one per temperature, and those of the next stage for a joint objective."""

    def __init__(
        self,
        arm: Arm,
        n_users: int,
        sampler: InstanceSampler,
        budget: Budget,
        rate: float,
        seed: int,
        size: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        shape = n_users, sampler.log.n_items, budget.width, budget.temperatures
        kinds = [StackedFactors, *[StackedTowers] * arm.joint]
        self.stages = nn.ModuleList([kind(*shape, seed + at) for at, kind in enumerate(kinds)])
        objective = arm.make_objective(sampler.relevant_from)
        self.loss, self.values, self.joint = objective.loss, objective.values, arm.joint
        self.count = len(budget.temperatures)
        log_a = objective.log_a
        self.log_a = None if log_a is None else nn.Parameter(log_a.detach().expand(self.count, -1).clone())
        self.to(device)
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=rate, weight_decay=0.0, fused=True, capturable=device.type == "cuda"
        )
        self.input = _empty(size, sampler.width, device)
        stream = stream_for(device)
        self.recorded = None if stream is None else Recorded(self._update, stream)

    def step(self, batch: InstanceBatch) -> None:
        """One step of every model; on a GPU a recorded one."""
        for own, new in zip(vars(self.input).values(), vars(batch).values(), strict=True):
            own.copy_(new)
        (self.recorded or self._update)()

    def _update(self) -> None:
        batch, count = self.input, self.count
        scores = [stage(batch.users, batch.items).flatten(0, 1) for stage in self.stages]  # [G * B, L]
        labels, mask = batch.labels.repeat(count, 1), batch.mask.repeat(count, 1)
        learned = {} if self.log_a is None else {"log_a": self.log_a.repeat_interleave(len(batch), 0)}
        losses = self.loss(scores if self.joint else scores[0], labels, mask, **self.values, **learned)
        self.optimizer.zero_grad(set_to_none=True)
        losses.view(count, -1).mean(1).sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def grids(self) -> list[Tensor]:
        """Scores of all users and items, for every temperature."""
        users, items = self.stages[0].vectors()  # type: ignore[operator]
        return [left @ right.T for left, right in zip(users, items, strict=True)]


def _empty(size: int, width: int, device: torch.device) -> InstanceBatch:
    """Tensors that keep their addresses."""
    return InstanceBatch(
        torch.zeros(size, dtype=torch.int64, device=device),
        torch.zeros((size, width), dtype=torch.int64, device=device),
        torch.zeros((size, width), device=device),
        torch.ones((size, width), dtype=torch.bool, device=device),
        torch.ones((size, width), device=device),
    )
