"""Optimizer, learning rate schedule and gradient clipping of tree training."""

import math

import torch
from torch import Tensor

from shortlist.models.nodes import NodeScorer
from shortlist.train.tree.plan import TreePlan

SPARSE_ROWS = 200_000  # rows of a table above which only rows with a gradient are updated


class TreeOptimizer:
    """Adam with the plan's schedule; a large node table is updated only in rows with a gradient."""

    def __init__(self, plan: TreePlan, scorer: NodeScorer) -> None:
        self.plan = plan
        tables = {id(one.weight) for one in (scorer.nodes, scorer.items) if one is not None}
        scorer.lazy = scorer.config.n_rows > SPARSE_ROWS
        dense = [one for one in scorer.parameters() if not (scorer.lazy and id(one) in tables)]
        kind = torch.optim.AdamW if plan.optimizer == "adamw" else torch.optim.Adam
        first = next(scorer.parameters())
        fused = first.is_cuda
        # On a GPU the learning rate is a tensor on the device, so that steps can be replayed.
        rate = torch.tensor(plan.learning_rate, device=first.device) if fused else plan.learning_rate
        self.dense = dense
        self.parts: list[torch.optim.Optimizer] = []
        if dense:  # a linear scorer has tables only
            self.parts.append(
                kind(
                    dense,
                    lr=rate,
                    weight_decay=plan.weight_decay,
                    amsgrad=plan.amsgrad,
                    fused=fused,
                    capturable=fused,
                )
            )
        if scorer.lazy:
            large = [one for one in scorer.parameters() if id(one) in tables]
            self.parts.append(torch.optim.SparseAdam(large, lr=plan.learning_rate))

    def set_learning_rate(self, step: int) -> None:
        """Set the learning rate of a step."""
        rate = learning_rate_at(self.plan, step)
        for part in self.parts:
            for group in part.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def step(self, loss: Tensor) -> None:
        """Backward pass and one update of the weights."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.plan.clip:
            torch.nn.utils.clip_grad_norm_(self.dense, self.plan.clip)
        for part in self.parts:
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer state under flat names."""
        return {
            f"{number}.{parameter}.{name}": torch.as_tensor(value)
            for number, part in enumerate(self.parts)
            for parameter, state in part.state_dict()["state"].items()
            for name, value in state.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Load a state made by `tensors`."""
        for number, part in enumerate(self.parts):
            state: dict[int, dict[str, Tensor | int]] = {}
            for name, value in tensors.items():
                owner, parameter, what = name.split(".", 2)
                if int(owner) == number:
                    # Integer step counts stay integers: powers of a tensor differ in the last digits.
                    whole = value.dtype == torch.int64
                    state.setdefault(int(parameter), {})[what] = int(value) if whole else value.clone()
            part.load_state_dict({**part.state_dict(), "state": state})


def learning_rate_at(plan: TreePlan, step: int) -> float:
    """The learning rate of a step: linear warm-up, then the plan's schedule, never below 1e-6."""
    at, length = (step % plan.steps, plan.steps) if plan.restart else (step, plan.total)
    rise = min(1.0, (at + 1) / plan.warmup) if plan.warmup else 1.0
    past = max(at + 1 - plan.warmup, 0)
    if plan.lr_schedule == "cosine":
        fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(past / max(length - plan.warmup, 1), 1.0)))
    elif plan.lr_schedule == "exponential":
        fall = math.exp(-past / plan.lr_decay_steps)
    else:
        fall = 1.0
    return max(plan.learning_rate * min(rise, fall), 1e-6)
