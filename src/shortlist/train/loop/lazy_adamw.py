"""AdamW for large tables: only the rows with a gradient are read and written."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

LAZY_ROWS = 50_000  # embedding tables with more rows get sparse gradients where a step reads few of them


class LazyAdamW(torch.optim.AdamW):
    """AdamW; of a table with a sparse gradient only the rows in it are updated, with their moments and weight decay.

    Other rows keep their values and moments until a step reads them (as in torch's SparseAdam). If every step reads all
    rows, it is AdamW.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None and weights.grad.is_sparse:
                    self._update_rows(weights, group)
                    weights.grad = None
        loss: float | None = super().step(closure)
        return loss

    def _update_rows(self, weights: Tensor, group: dict[str, Any]) -> None:
        gradient = weights.grad.coalesce()  # type: ignore[union-attr]
        rows, values = gradient.indices()[0], gradient.values()  # [R], [R, D]
        state = self._moments(weights)
        state["step"] += 1
        (first_decay, second_decay), step = group["betas"], state["step"].item()
        first = state["exp_avg"][rows].lerp_(values, 1 - first_decay)
        second = state["exp_avg_sq"][rows].mul_(second_decay).addcmul_(values, values, value=1 - second_decay)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = first, second
        size = second.div_(1 - second_decay**step).sqrt_().add_(group["eps"])
        change = first.div_(1 - first_decay**step).div_(size)
        kept = 1 - group["lr"] * group["weight_decay"]
        weights[rows] = weights[rows].mul_(kept).sub_(change, alpha=group["lr"])

    def _moments(self, weights: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weights]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weights), torch.zeros_like(weights)
        return state


def use_sparse_gradients(model: nn.Module, rows: int = LAZY_ROWS) -> None:
    """Give the embedding tables of more than `rows` rows sparse gradients."""
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            part.sparse = part.num_embeddings > rows


def clip_gradients(model: nn.Module, norm: float) -> None:
    """Scale all gradients so that their norm is at most `norm`; sparse ones count with their rows."""
    for weights in model.parameters():
        if weights.grad is not None and weights.grad.is_sparse:
            weights.grad = weights.grad.coalesce()
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    values = [one.values() if one.is_sparse else one for one in gradients]
    total = torch.nn.utils.get_total_norm(values)
    scale = (norm / (total + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(values, scale)
