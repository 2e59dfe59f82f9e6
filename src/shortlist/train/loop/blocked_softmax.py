"""Softmax loss over a catalogue whose logits never exist at once: blocks of positions, with gradients on the way."""

from typing import Any

import torch
from torch import Tensor

BLOCK = 1 << 21  # logits of a block, 8 MB


class _BlockedSoftmax(torch.autograd.Function):
    """Losses [P] of users [P, D] against items [N, D] with targets [P]; the gradients are computed with the losses.

    The gradient of a loss by its logits is softmax - one-hot. Each block adds its part of both gradients for a known
    factor of every loss, and its memory is used again, so nothing of the size P x N is allocated.
    """

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, target: Tensor, factor: Tensor, block: int) -> Tensor:
        by_user, by_item = torch.empty_like(users), torch.zeros_like(items)
        total = users.new_zeros(())
        rows = max(block // max(len(items), 1), 1)
        logits = users.new_empty((min(rows, len(users)), len(items)))
        for start in range(0, len(users), rows):
            part = slice(start, start + rows)
            own = users[part]
            total += _block(
                own, items, target[part], factor[part], logits[: len(own)], by_user[part], by_item
            )
        ctx.save_for_backward(by_user, by_item)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        by_user, by_item = ctx.saved_tensors
        return by_user * grads[0], by_item * grads[0], None, None, None


def blocked_softmax_loss(
    users: Tensor, items: Tensor, target: Tensor, weights: Tensor | None = None, block: int = BLOCK
) -> Tensor:
    """The mean over positions of logsumexp(u items') - u item_target, each times its weight: [P, D], [N, D], [P]."""
    factor = users.new_full((len(users),), 1.0 / max(len(users), 1))
    factor = factor if weights is None else factor * weights
    loss: Tensor = _BlockedSoftmax.apply(users, items, target, factor, block)  # type: ignore[no-untyped-call]
    return loss


def _block(
    users: Tensor,
    items: Tensor,
    target: Tensor,
    factor: Tensor,
    logits: Tensor,
    by_user: Tensor,
    by_item: Tensor,
) -> Tensor:
    """The weighted sum of losses of a block; writes its part of both gradients. `logits` is overwritten."""
    torch.mm(users, items.T, out=logits)  # [p, N]
    positive = logits.gather(1, target[:, None])[:, 0]
    largest = logits.amax(1, keepdim=True)  # many times faster than max, which finds places too
    total = logits.sub_(largest).exp_().sum(1, keepdim=True)
    losses = total[:, 0].log() + largest[:, 0] - positive
    logits.mul_(factor[:, None] / total)  # softmax times factor
    logits[torch.arange(len(users)), target] -= factor
    torch.mm(logits, items, out=by_user)
    by_item.addmm_(logits.T, users)
    return (losses * factor).sum()
