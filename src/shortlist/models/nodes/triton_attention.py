"""The attention unit in one GPU kernel: the values between a history item and a node are never written to memory.

It computes t, the argument of prelu2 in `unit` without b2. The plain form writes the brackets, 2,484 numbers for a node
and a history of 69; the kernel keeps them in registers, and the backward pass recomputes them. Since
prelu(x) = slope x + (1 - slope) max(x, 0), the linear part is computed once for all h, and only the maximum is inside
the loop. A column of ones appended to a and w makes the matrix products return the sums over nodes and over items too.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes import triton_kernels
from shortlist.models.nodes.triton_kernels import HAS_TRITON as HAS_TRITON
from shortlist.models.nodes.unit import UnitInputs, unit_gradients


def fused_weights(unit: UnitInputs) -> Tensor:
    """Attention weights [U, C, K] as in `plain_weights`, on CUDA."""
    a, there, pa, w, pn, wp, w2, b2, slope1, slope2 = unit
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else a.dtype
    a, pa, w, pn = (part.to(kind) for part in (a, pa, w, pn))
    bare = _Unit.apply(a, pa, w, pn, wp, w2, slope1)  # type: ignore[no-untyped-call]
    weights = F.prelu(bare + b2.to(kind), slope2.to(kind))  # [U, C, K]
    return weights * there[:, None, :]


class _Unit(torch.autograd.Function):
    """t and its gradients; inputs in bf16 or float32, sums in float32."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor, w2: Tensor, slope: Tensor
    ) -> Tensor:
        wp, w2, slope = wp.float().contiguous(), w2.float().contiguous(), slope.float()
        users, max_history = a.shape[:2]
        out = torch.empty((users, w.shape[1], max_history), dtype=a.dtype, device=a.device)
        tiles = _narrow_tiles(a, w) if a.dtype == torch.bfloat16 else _tiles(a, w)
        grid = (users, _chunks(w, tiles))
        triton_kernels.forward[grid](*_arguments(a, pa, w, pn, wp), w2, slope, out, **tiles)
        ctx.save_for_backward(a, pa, w, pn, wp, w2, slope)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, pa, w, pn, wp, w2, slope = ctx.saved_tensors
        dt = grads[0].contiguous()
        tiles = _tiles(a, w)
        users, chunks, width, hidden = len(a), _chunks(w, tiles), a.shape[2], len(w2)
        dw, above_n = w.new_empty(w.shape), pn.new_empty((*pn.shape[:2], hidden + 1))
        da = torch.empty((chunks, *a.shape), dtype=a.dtype if chunks == 1 else torch.float32, device=a.device)
        above_a = torch.empty((chunks, *pa.shape[:2], hidden + 1), dtype=da.dtype, device=a.device)
        part = torch.empty((chunks, users, hidden + 1, tiles["D"]), dtype=torch.float32, device=a.device)
        arguments = *_arguments(a, pa, w, pn, F.pad(wp, (0, 0, 0, 1))), F.pad(w2, (0, 1))
        triton_kernels.backward[(users, chunks)](
            *arguments, slope, dt, da, above_a, dw, above_n, part, **tiles
        )
        da = da[0] if chunks == 1 else da.sum(0).to(a.dtype)
        above_a = above_a[0] if chunks == 1 else above_a.sum(0)
        across = part.sum((0, 1))[:, :width]
        return da, *unit_gradients(pa, pn, wp, w2, slope, above_a, above_n, across, dw)


def _arguments(a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor) -> tuple[Any, ...]:
    strides = (*a.stride(), *pa.stride(), *w.stride(), *pn.stride())
    return (a, pa, w, pn, wp, *strides, w.shape[1], *a.shape[1:], pa.shape[2])


def _tiles(a: Tensor, w: Tensor) -> dict[str, Any]:
    """Nodes and history items are taken as sums of two powers of two: 71 and 69 fit 64 + 16 well."""
    (c1, c2), (k1, k2) = _pair(w.shape[1]), _pair(a.shape[1])
    precise = a.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
    width = max(16, 1 << a.shape[2].bit_length())  # with a column for the ones
    warps = 4 if c1 * k1 >= 2048 else 1
    return {"C1": c1, "C2": c2, "K1": k1, "K2": k2, "D": width, "PRECISE": precise, "num_warps": warps}


def _narrow_tiles(a: Tensor, w: Tensor) -> dict[str, Any]:
    """One warp per 32 nodes: forward in bf16 on an H200 took 0.79 ms, against 1.8 ms with four warps per 80 nodes."""
    return {**_tiles(a, w), "C1": 16 if w.shape[1] <= 16 else 32, "C2": 0, "num_warps": 1}


def _pair(count: int) -> tuple[int, int]:
    """Two powers of two with little padding in their sum; more than 80 are taken in several iterations."""
    for pair in ((16, 0), (32, 0), (32, 16), (64, 0)):
        if count <= sum(pair):
            return pair
    return min(((64, 16), (64, 0)), key=lambda pair: -(-count // sum(pair)) * sum(pair))


def _chunks(w: Tensor, tiles: dict[str, Any]) -> int:
    return int(-(-w.shape[1] // (tiles["C1"] + tiles["C2"])))
