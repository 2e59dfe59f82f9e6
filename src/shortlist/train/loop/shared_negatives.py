"""Softmax loss of positives against negatives that a batch shares: logits block by block, with their gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shortlist.train.loop.shared_offers import BLOCK, GPU_BLOCK, ROWS


class _SharedNegatives(torch.autograd.Function):
    """The weighted sum of losses of users [P, D] with `chosen` scores [P] of their positives; gradients on the way.

    Logits of the others are users items' + bias [U], without the item at `hit` [P], -1 = none; `factor` [P] multiplies
    the losses. Each block adds its part of all gradients, so nothing of the size P x U is allocated.
    """

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, chosen: Tensor, items: Tensor, bias: Tensor, hit: Tensor, factor: Tensor
    ) -> Tensor:
        by_user, by_chosen, by_item = (
            torch.empty_like(users),
            torch.empty_like(chosen),
            torch.zeros_like(items),
        )
        total = users.new_zeros(())
        rows = max((GPU_BLOCK if users.is_cuda else BLOCK) // max(len(items), 1), ROWS)
        logits = users.new_empty((min(rows, len(users)), len(items)))
        for start in range(0, len(users), rows):
            part = slice(start, start + rows)
            given, block, own = users[part], logits[: len(users[part])], chosen[part]
            torch.addmm(bias, given, items.T, out=block)
            _remove(block, hit[part])
            largest = torch.maximum(block.amax(1), own)
            positive = (own - largest).exp_()
            sums = block.sub_(largest[:, None]).exp_().sum(1).add_(positive)
            total += (sums.log() + largest - own) @ factor[part]
            scale = factor[part] / sums
            torch.sub(positive * scale, factor[part], out=by_chosen[part])
            block *= scale[:, None]
            torch.mm(block, items, out=by_user[part])
            by_item.addmm_(block.T, given)
        ctx.save_for_backward(by_user, by_chosen, by_item)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_user, by_chosen, by_item = ctx.saved_tensors
        return by_user * grads[0], by_chosen * grads[0], by_item * grads[0], None, None, None


def shared_negatives_loss(
    users: Tensor,
    chosen: Tensor,
    targets: Tensor,
    ids: Tensor,
    vectors: Callable[[Tensor], Tensor],
    log_q: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The mean over events of logsumexp(chosen and the scores of sampled items) - chosen; weights [P] multiply losses.

    users [P, D]; `chosen` [P] are the scores of the targets [P]; sampled items ids [M] have `vectors`, and log_q [M] is
    subtracted from their scores. The target of an event is none of its negatives. Every distinct item is scored once.
    """
    distinct, at, copies = torch.unique(ids, return_inverse=True, return_counts=True)  # [U], [M], [U]
    bias = copies.to(users.dtype).log()
    if log_q is not None:
        bias = bias - torch.empty_like(bias).index_copy_(0, at, log_q.to(bias.dtype))
    place = torch.searchsorted(distinct, targets).clamp(max=len(distinct) - 1)
    hit = torch.where(distinct[place] == targets, place, -1)
    factor = torch.full_like(chosen, 1 / max(len(chosen), 1))
    if weights is not None:
        factor = weights / (weights > 0).sum().clamp(min=1)
    given = (users, chosen, vectors(distinct), bias, hit, factor)
    loss: Tensor = _SharedNegatives.apply(*given)  # type: ignore[no-untyped-call]
    return loss


def _remove(logits: Tensor, hit: Tensor) -> None:
    """Set the logit at `hit` [p], where it is not -1, to -inf in every row of [p, U]."""
    at = hit.clamp(min=0)[:, None]
    logits.scatter_(1, at, logits.gather(1, at).masked_fill_(hit[:, None] >= 0, -torch.inf))
