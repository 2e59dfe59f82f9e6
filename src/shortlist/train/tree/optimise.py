"""How the scorer's weights move: optimizer, schedule, clipping."""

import math

import torch
from torch import Tensor

from shortlist.models.nodes import NodeScorer
from shortlist.train.tree.plan import TreePlan

LAZY = 200_000  # rows of a table above which only touched rows are moved


class Optimiser:
    """Adam with the plan's schedule; a large node table is moved only where it was touched."""

    def __init__(self, plan: TreePlan, scorer: NodeScorer) -> None:
        self.plan = plan
        tables = {id(one.weight) for one in (scorer.nodes, scorer.items) if one is not None}
        scorer.lazy = scorer.config.n_rows > LAZY
        dense = [one for one in scorer.parameters() if not (scorer.lazy and id(one) in tables)]
        kind = torch.optim.AdamW if plan.optimizer == "adamw" else torch.optim.Adam
        first = next(scorer.parameters())
        fused = first.is_cuda
        # On a GPU the rate is a number on the device, so that steps can be replayed.
        rate = torch.tensor(plan.learning_rate, device=first.device) if fused else plan.learning_rate
        self.dense = dense
        self.parts: list[torch.optim.Optimizer] = []
        if dense:  # a linear scorer is nothing but tables
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

    def pace(self, step: int) -> None:
        """Set the rate of a step."""
        rate = rate_at(self.plan, step)
        for part in self.parts:
            for group in part.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def step(self, loss: Tensor) -> None:
        """One move down the gradient of a loss."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.plan.clip:
            torch.nn.utils.clip_grad_norm_(self.dense, self.plan.clip)
        for part in self.parts:
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer's memory under flat names."""
        return {
            f"{number}.{parameter}.{name}": torch.as_tensor(value)
            for number, part in enumerate(self.parts)
            for parameter, kept in part.state_dict()["state"].items()
            for name, value in kept.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The memory back."""
        for number, part in enumerate(self.parts):
            told = part.state_dict()
            state: dict[int, dict[str, Tensor | int]] = {}
            for name, value in tensors.items():
                owner, parameter, what = name.split(".", 2)
                if int(owner) == number:
                    # Steps that were whole numbers come back as such: powers of a tensor have other last digits.
                    whole = value.dtype == torch.int64
                    state.setdefault(int(parameter), {})[what] = int(value) if whole else value.clone()
            part.load_state_dict({**told, "state": state})


def rate_at(plan: TreePlan, step: int) -> float:
    """The learning rate of a step: up in a straight line, then down as the plan says, never below one in a million."""
    at, length = (step % plan.steps, plan.steps) if plan.restart else (step, plan.total)
    rise = min(1.0, (at + 1) / plan.warmup) if plan.warmup else 1.0
    past = max(at + 1 - plan.warmup, 0)
    if plan.lr_schedule == "cosine":
        fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(past / max(length - plan.warmup, 1), 1.0)))
    elif plan.lr_schedule == "exponential":
        fall = math.exp(-past / plan.fade_steps)
    else:
        fall = 1.0
    return max(plan.learning_rate * min(rise, fall), 1e-6)
