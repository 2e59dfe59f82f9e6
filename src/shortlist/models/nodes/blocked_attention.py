"""The attention unit with gradients on a CPU, block by block: memory is that of one block, and a block fits the cache.

As in `triton_attention`, a backward pass computes the brackets of a block again instead of reading
them, and only the positive part of prelu is inside the loop over h.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.unit import Block, UnitInputs, blocks, unit_gradients

BLOCK = 2**21  # bytes of brackets per block: with their factors they fit the cache

Made = TypeVar("Made")


def blocked_weights(unit: UnitInputs) -> Tensor:
    """Attention weights [U, C, K] as in `plain_weights`, whose brackets [U, C, K, h] are never stored as a whole."""
    a, there, pa, w, pn, wp, w2, b2, slope1, slope2 = unit
    bare = _Unit.apply(a, pa, w, pn, wp, w2, slope1)  # type: ignore[no-untyped-call]
    return F.prelu(bare + b2, slope2).masked_fill(~there[:, None], 0)


class _Unit(torch.autograd.Function):
    """slope * linear part + (1 - slope) * sum over h of w2 max(bracket, 0), and its gradients."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor, w2: Tensor, slope: Tensor
    ) -> Tensor:
        ctx.save_for_backward(a, pa, w, pn, wp, w2, slope)
        out, share = w.new_empty(len(w), w.shape[1], a.shape[1]), (1 - slope) * w2

        def positive_part(users: slice, nodes: slice) -> None:
            x = _brackets(a[users], pa[users], w[users, nodes], pn[users, nodes], wp).clamp_(min=0)
            out[users, nodes] = torch.matmul(share, x.flatten(2)).view(out[users, nodes].shape)

        _side_by_side(positive_part, pa, w)
        out += ((slope * (w2 @ wp)) * w) @ a.mT  # the linear part, for all h at once
        return out.add_(slope * (pn @ w2)[:, :, None]).add_(slope * (pa @ w2)[:, None])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, pa, w, pn, wp, w2, slope = ctx.saved_tensors
        # One more h, with a bracket of 1, has all of the gradient: the linear part needs it.
        wp1, pa1, pn1 = F.pad(wp, (0, 0, 0, 1)), F.pad(pa, (0, 1)), F.pad(pn, (0, 1), value=1.0)
        scale = torch.cat([(1 - slope) * w2[:, None] * wp, (slope * (w2 @ wp))[None]])  # [h + 1, D]
        da, dw = torch.zeros_like(a), torch.empty_like(w)
        above_a, above_n = torch.zeros_like(pa1), torch.empty_like(pn1)

        def sums(users: slice, nodes: slice) -> Tensor:
            x = _brackets(a[users], pa1[users], w[users, nodes], pn1[users, nodes], wp1)
            dt = grads[0][users, nodes][:, None].expand_as(x)
            own = torch.ops.aten.threshold_backward(dt, x, 0, grad_input=x)  # dt where x > 0
            to_w = _times(own.flatten(1, 2), _with_ones(a[users]), x.shape[1])  # [u, h + 1, c, D + 1]
            to_a = own.mT @ _with_ones(w[users, nodes])[:, None]  # [u, h + 1, K, D + 1]
            dw[users, nodes], above_n[users, nodes] = _summed(to_w, scale)
            more, above = _summed(to_a, scale)
            da[users] += more
            above_a[users] += above
            products: Tensor = to_a[..., :-1] * a[users, None]
            return products.sum((0, 2))

        across = torch.stack(_side_by_side(sums, pa, w)).sum(0)  # [h + 1, D]
        return da, *unit_gradients(pa, pn, wp, w2, slope, above_a, above_n, across, dw)


def _side_by_side(work: Callable[[slice, slice], Made], pa: Tensor, w: Tensor) -> list[Made]:
    """The results of all blocks, in order; users are spread over threads, whose arithmetic uses one thread each.

    Threads inside every operation would wait for each other after each of them.
    """

    @torch.no_grad()
    def done(own: list[Block]) -> list[Made]:
        return [work(users, nodes) for users, nodes in own]

    tasks, threads = list(blocks(pa, w, BLOCK)), torch.get_num_threads()
    if min(threads, len(tasks)) == 1:
        return list(chain.from_iterable(map(done, tasks)))
    try:
        with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
            return list(chain.from_iterable(pool.map(done, tasks)))
    finally:
        torch.set_num_threads(threads)  # a worker has changed it for the arithmetic library of all threads


def _brackets(a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor) -> Tensor:
    """pa + pn + (a * wp) w [u, h, c, K]: nodes and history items are the last two axes, for the products after it."""
    left = torch.cat([w[:, None] * wp[:, None], pn.mT[..., None]], 3)  # [u, h, c, D + 1]
    return _times(left.flatten(1, 2), _with_ones(a).mT, len(wp)).add_(pa.mT.contiguous()[:, :, None])


def _times(left: Tensor, right: Tensor, hidden: int) -> Tensor:
    """[u, h * c, X] times [u, X, Y] as [u, h, c, Y]."""
    product = torch.bmm(left, right)
    return product.view(len(product), hidden, -1, product.shape[2])


def _with_ones(vectors: Tensor) -> Tensor:
    """Vectors with a 1 after them: products with them return sums too, in the last column."""
    return F.pad(vectors, (0, 1), value=1.0)


def _summed(to: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """[u, h + 1, X, D + 1] as a gradient [u, X, D], summed over h with `scale` [h + 1, D], and sums [u, X, h + 1]."""
    return (to[..., :-1] * scale[:, None]).sum(1), to[..., -1].mT
