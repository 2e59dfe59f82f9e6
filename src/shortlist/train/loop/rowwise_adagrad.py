"""Row-wise Adagrad for large tables, Adam for all other weights: an optimizer for models with sparse gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

EPSILON = 1e-10


class RowwiseAdagrad(torch.optim.AdamW):
    """AdamW; a table with a sparse gradient has one accumulator per row, and only the rows in it are changed.

    Of a row with the gradient g: s += mean(g * g), w -= lr g / sqrt(s). Rows without a gradient are neither read nor
    written. Tables have the learning rate `lr`, all other weights `dense_lr`.
    """

    def __init__(
        self, model: nn.Module, lr: float = 0.1, dense_lr: float = 1e-3, weight_decay: float = 0.0
    ) -> None:
        tables = {id(one.weight) for one in model.modules() if _is_sparse(one)}
        groups = [
            {"params": [one for one in model.parameters() if id(one) in tables], "lr": lr},
            {"params": [one for one in model.parameters() if id(one) not in tables], "lr": dense_lr},
        ]
        super().__init__([one for one in groups if one["params"]], weight_decay=weight_decay)

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
        state: dict[str, Tensor] = self.state[weights]
        if not state:
            state["step"] = torch.zeros(())  # torch expects one in every state that it restores
            state["squares"] = weights.new_zeros(len(weights))
        state["step"] += 1
        squares = state["squares"][rows] + values.square().mean(1)
        state["squares"][rows] = squares
        size = squares.sqrt_().add_(EPSILON)
        # Several times as fast as index_add_ and as an assignment to weights[rows].
        changed = weights.index_select(0, rows).addcdiv_(values, size[:, None], value=-group["lr"])
        weights.index_copy_(0, rows, changed)


def _is_sparse(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
