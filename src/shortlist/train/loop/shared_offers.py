"""Softmax loss of positives among items that a batch shares; logits exist block by block, with their gradients."""

from typing import Any

import torch
from torch import Tensor

BLOCK = 1 << 18  # logits of a block, 1 MB: they stay in the cache from the scores to both gradients
ROWS = 128  # least rows of a block: products of fewer are slow
GPU_BLOCK = 1 << 26  # on a GPU, where small blocks cost launches


class _SharedOffers(torch.autograd.Function):
    """The weighted sum of losses of users [P, D] against items [U, D]; the gradients are computed with the losses.

    Logits are users items' + bias [U], and + own [P] at the positive. The gradient of a loss by its logits is
    softmax - one-hot; each block adds its part of both gradients, so nothing of the size P x U is allocated.
    `factor` [P] multiplies the losses; None: 1 / P multiplies all.
    """

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        target: Tensor,
        bias: Tensor,
        own: Tensor,
        factor: Tensor | None,
        hidden: Tensor | None,
    ) -> Tensor:
        by_user, by_item, total = torch.empty_like(users), torch.zeros_like(items), users.new_zeros(())
        rows = max((GPU_BLOCK if users.is_cuda else BLOCK) // max(len(items), 1), ROWS)
        logits = users.new_empty((min(rows, len(users)), len(items)))
        for start in range(0, len(users), rows):
            part = slice(start, start + rows)
            given, block = users[part], logits[: len(users[part])]
            torch.addmm(bias, given, items.T, out=block)
            losses = _losses(block, target[part], own[part], None if hidden is None else hidden[part])
            total += losses.sum() if factor is None else losses @ factor[part]
            if any(ctx.needs_input_grad[:2]):
                if factor is not None:
                    block *= factor[part, None]
                torch.mm(block, items, out=by_user[part])
                by_item.addmm_(block.T, given)
        if factor is None:
            for one in (total, by_user, by_item):
                one.div_(max(len(users), 1))
        ctx.save_for_backward(by_user, by_item)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        by_user, by_item = ctx.saved_tensors
        return by_user * grads[0], by_item * grads[0], None, None, None, None, None


def shared_offer_loss(
    users: Tensor,
    items: Tensor,
    target: Tensor,
    bias: Tensor,
    own: Tensor,
    weights: Tensor | None = None,
    hidden: Tensor | None = None,
) -> Tensor:
    """The mean over events of logsumexp_j(u x_j + bias_j) - (u x_t + bias_t), with bias_t + own at its positive t.

    users [P, D], items [U, D], target [P] positions in items, bias [U], own [P]. `weights` [P] multiply the losses;
    those of weight 0 are left out. `hidden` [P, U] items are left out, never the positive. Gradients go to users and
    items.
    """
    factor = None if weights is None else weights / (weights > 0).sum().clamp(min=1)
    given = (users, items, target, bias, own, factor, hidden)
    loss: Tensor = _SharedOffers.apply(*given)  # type: ignore[no-untyped-call]
    return loss


def _losses(logits: Tensor, target: Tensor, own: Tensor, hidden: Tensor | None) -> Tensor:
    """The losses of a block [p]; `logits` [p, U] become softmax - one-hot."""
    here = torch.arange(len(logits), device=logits.device)
    positive = logits[here, target] + own
    if hidden is not None:
        logits.masked_fill_(hidden, -torch.inf)
    logits[here, target] = positive
    largest = logits.amax(1)
    torch.softmax(logits, 1, out=logits)
    normaliser = (
        largest - logits.amax(1).log()
    )  # logsumexp: the largest probability is exp(largest - normaliser)
    logits[here, target] -= 1
    return normaliser - positive
