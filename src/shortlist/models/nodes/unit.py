"""The attention unit: its inputs, its plain form, and what its faster forms share.

For user u, node c and history item k the unit is

    s[u, c, k] = prelu2(b2 + sum over h of w2[h] * prelu1(bracket[u, c, k, h]))
    bracket[u, c, k, h] = pa[u, k, h] + pn[u, c, h] + sum over d of wp[h, d] a[u, k, d] w[u, c, d]
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

CPU_BLOCK = 2**20  # bytes of pre-activations per block, without gradients: the second-level cache
GPU_BLOCK = 2**26  # the same on a GPU, where only memory is the limit

Block = tuple[slice, slice]  # of users and of nodes


class UnitInputs(NamedTuple):
    """What the attention unit reads, with U users, K history items, C nodes, vectors of D and h hidden values."""

    a: Tensor  # [U, K, D] history vectors
    there: Tensor  # bool [U, K], False = padding
    pa: Tensor  # [U, K, h] contribution of a history vector alone
    w: Tensor  # [U, C, D] node vectors
    pn: Tensor  # [U, C, h] contribution of a node vector alone, with the bias
    wp: Tensor  # [h, D] weights of their product
    w2: Tensor  # [h]
    b2: Tensor  # [1]
    slope1: Tensor  # [1]
    slope2: Tensor  # [1]

    def block(self, users: slice, nodes: slice) -> "UnitInputs":
        """The inputs of some users and some of their nodes."""
        return self._replace(
            a=self.a[users],
            there=self.there[users],
            pa=self.pa[users],
            w=self.w[users, nodes],
            pn=self.pn[users, nodes],
        )


def plain_weights(unit: UnitInputs) -> Tensor:
    """Attention weights s [U, C, K], 0 at padding; without gradients block by block, so memory stays bounded."""
    if torch.is_grad_enabled():
        return _plain(unit)
    w = unit.w
    s = w.new_empty(len(w), w.shape[1], unit.pa.shape[1])  # [U, C, K]
    for block in chain.from_iterable(blocks(unit.pa, w, GPU_BLOCK if w.is_cuda else CPU_BLOCK)):
        s[block] = _plain(unit.block(*block))
    return s


def _plain(unit: UnitInputs) -> Tensor:
    a, there, pa, w, pn, wp, w2, b2, slope1, slope2 = unit
    users, k, hidden = pa.shape
    bilinear = (a[:, :, None] * wp).view(users, k * hidden, -1)  # [U, K*h, D]
    x = (w @ bilinear.transpose(1, 2)).view(users, -1, k, hidden)  # [U, C, K, h]
    x = F.prelu(x.add_(pa[:, None]).add_(pn[:, :, None]), slope1.to(x.dtype))
    s = F.linear(x, w2[None], b2).squeeze(-1)
    return F.prelu(s, slope2.to(s.dtype)).masked_fill(~there[:, None], 0)  # [U, C, K]


def blocks(pa: Tensor, w: Tensor, size: int) -> Iterator[list[Block]]:
    """Slices of users and nodes with `size` bytes of pre-activations each; one list for blocks of the same users."""
    pair = pa.shape[1] * pa.shape[2] * pa.element_size()
    nodes = max(1, min(w.shape[1], size // pair))
    users = max(1, size // (nodes * pair))
    for user in range(0, len(w), users):
        own = slice(user, user + users)
        yield [(own, slice(node, node + nodes)) for node in range(0, w.shape[1], nodes)]


def unit_gradients(
    pa: Tensor,
    pn: Tensor,
    wp: Tensor,
    w2: Tensor,
    slope: Tensor,
    above_a: Tensor,
    above_n: Tensor,
    across: Tensor,
    dw: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of pa, w, pn, wp, w2 and slope from sums of dt where a bracket is positive, last over all of them.

    above_a [U, K, h + 1] is summed over nodes, above_n [U, C, h + 1] over history items, across [h + 1, D] is that of
    dt a w over both; dw [U, C, D] is complete already.
    """
    # Sums of dt * bracket [h]: where it is positive, and everywhere.
    above = _dots(pa, above_a[..., :-1]) + _dots(pn, above_n[..., :-1]) + (wp * across[:-1]).sum(1)
    all_in = _dots(pa, above_a[..., -1:]) + _dots(pn, above_n[..., -1:]) + wp @ across[-1]
    dw2, dslope = slope * all_in + (1 - slope) * above, (w2 * (all_in - above)).sum()
    dpa, dpn = _mixed(above_a, slope, w2).to(pa.dtype), _mixed(above_n, slope, w2).to(pn.dtype)
    dwp = w2[:, None] * (slope * across[-1:] + (1 - slope) * across[:-1])
    return dpa, dw, dpn, dwp, dw2, dslope[None]


def _mixed(sums: Tensor, slope: Tensor, w2: Tensor) -> Tensor:
    """Gradients [U, X, h] from sums of dt where the bracket is positive, and over all of them in the last column."""
    kind = sums.dtype
    return sums[..., :-1] * (w2 * (1 - slope)).to(kind) + sums[..., -1:] * (w2 * slope).to(kind)


def _dots(x: Tensor, y: Tensor) -> Tensor:
    """Products summed over all but the last axis, at least in float32."""
    return (x * y).sum((0, 1), dtype=torch.promote_types(x.dtype, torch.float32))
