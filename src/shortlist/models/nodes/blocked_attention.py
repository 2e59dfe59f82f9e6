"""The attention unit with gradients on a CPU, block by block: memory is that of one block, and a block fits the cache.

The formula is that of `triton_attention`: a backward pass computes the brackets of a block again instead of reading
them, and only the positive part of prelu is inside the loop over h.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.triton_attention import unit_gradients

BLOCK = 2**20  # bytes of brackets per block and thread: about the second-level cache


def blocked_weights(
    a: Tensor,
    there: Tensor,
    pa: Tensor,
    w: Tensor,
    pn: Tensor,
    wp: Tensor,
    w2: Tensor,
    b2: Tensor,
    slope1: Tensor,
    slope2: Tensor,
) -> Tensor:
    """Attention weights [U, C, K] as in `plain_weights`, whose brackets [U, C, K, h] are never stored as a whole."""
    bare = _Unit.apply(a, pa, w, pn, wp, w2, slope1)  # type: ignore[no-untyped-call]
    return F.prelu(bare + b2, slope2).masked_fill(~there[:, None], 0)


class _Unit(torch.autograd.Function):
    """slope * linear part + (1 - slope) * sum over h of w2 max(bracket, 0), and its gradients."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor, w2: Tensor, slope: Tensor
    ) -> Tensor:
        ctx.save_for_backward(a, pa, w, pn, wp, w2, slope)
        out = w.new_empty(len(w), w.shape[1], a.shape[1])
        for users, nodes in blocks(pa, w):
            x = _brackets(a[users], pa[users], w[users, nodes], pn[users, nodes], wp).clamp_(min=0)
            out[users, nodes] = torch.matmul((1 - slope) * w2, x.flatten(2)).view(out[users, nodes].shape)
        out += ((slope * (w2 @ wp)) * w) @ a.mT  # the linear part, for all h at once
        return out.add_(slope * (pn @ w2)[:, :, None]).add_(slope * (pa @ w2)[:, None])

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, pa, w, pn, wp, w2, slope = ctx.saved_tensors
        # One more h, with a bracket of 1, has all of the gradient: the linear part needs it.
        wp1, pa1, pn1 = F.pad(wp, (0, 0, 0, 1)), F.pad(pa, (0, 1)), F.pad(pn, (0, 1), value=1.0)
        scale = torch.cat([(1 - slope) * w2[:, None] * wp, (slope * (w2 @ wp))[None]])  # [h + 1, D]
        da, dw = torch.zeros_like(a), torch.empty_like(w)
        above_a, above_n, across = torch.zeros_like(pa1), torch.empty_like(pn1), torch.zeros_like(wp1)
        for users, nodes in blocks(pa, w):
            x = _brackets(a[users], pa1[users], w[users, nodes], pn1[users, nodes], wp1)
            dt = grads[0][users, nodes][:, None].expand_as(x)
            own = torch.ops.aten.threshold_backward(dt, x, 0, grad_input=x)  # dt where x > 0
            to_w = _times(own.flatten(1, 2), _with_ones(a[users]), x.shape[1])  # [u, h + 1, c, D + 1]
            to_a = own.mT @ _with_ones(w[users, nodes])[:, None]  # [u, h + 1, K, D + 1]
            dw[users, nodes], above_n[users, nodes] = _summed(to_w, scale)
            more, above = _summed(to_a, scale)
            da[users] += more
            above_a[users] += above
            across += (to_a[..., :-1] * a[users, None]).sum((0, 2))
        return da, *unit_gradients(pa, pn, wp, w2, slope, above_a, above_n, across, dw)


def blocks(pa: Tensor, w: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of users and nodes per block."""
    size = BLOCK * torch.get_num_threads()
    pair = pa.shape[1] * pa.shape[2] * pa.element_size()
    nodes = max(1, min(w.shape[1], size // pair))
    users = max(1, size // (nodes * pair))
    for user in range(0, len(w), users):
        for node in range(0, w.shape[1], nodes):
            yield slice(user, user + users), slice(node, node + nodes)


def _brackets(a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor) -> Tensor:
    """pa + pn + (a * wp) w [u, h, c, K]: nodes and history items are the last two axes, for the products after it."""
    left = torch.cat([w[:, None] * wp[:, None], pn.mT[..., None]], 3)  # [u, h, c, D + 1]
    return _times(left.flatten(1, 2), _with_ones(a).mT, len(wp)).add_(pa.mT.contiguous()[:, :, None])


def _times(left: Tensor, right: Tensor, hidden: int) -> Tensor:
    """[u, h * c, X] times [u, X, Y] as [u, h, c, Y]."""
    return torch.bmm(left, right).unflatten(1, (hidden, -1))


def _with_ones(vectors: Tensor) -> Tensor:
    """Vectors with a 1 after them: products with them return sums too, in the last column."""
    return F.pad(vectors, (0, 1), value=1.0)


def _summed(to: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """[u, h + 1, X, D + 1] as a gradient [u, X, D], summed over h with `scale` [h + 1, D], and sums [u, X, h + 1]."""
    return (to[..., :-1] * scale[:, None]).sum(1), to[..., -1].mT
