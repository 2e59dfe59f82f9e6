"""The attention unit in one GPU kernel: what lies between a history item and a node never meets memory.

For user u, node c and history item k the unit is

    t[u, c, k] = sum over h of w2[h] * prelu(pa[u, k, h] + pn[u, c, h] + sum over d of wp[h, d] a[u, k, d] w[u, c, d])

The plain form writes the bracket, 2,484 numbers for a node and a history of 69; the kernel keeps it in registers,
and the backward pass computes it again instead of reading it back.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - one of the two branches runs on any machine
    triton = None

fused_is_here: bool = triton is not None


def fused_weights(
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
    """Attention weights [U, C, K] as `plain_weights` gives them, on CUDA."""
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else a.dtype
    a, pa, w, pn = (one.to(kind) for one in (a, pa, w, pn))
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
        users, memory, width = a.shape
        out = torch.empty((users, w.shape[1], memory), dtype=a.dtype, device=a.device)
        block = _block(w.shape[1])
        grid = (users, -(-w.shape[1] // block))
        _forward[grid](
            a, pa, w, pn, wp, w2, slope, out,
            *a.stride(), *pa.stride(), *w.stride(), *pn.stride(),
            w.shape[1], memory, width, len(w2),
            C=block, K=TILE, D=_padded(width), PRECISE=_precise(a),
        )  # fmt: skip
        ctx.save_for_backward(a, pa, w, pn, wp, w2, slope)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, pa, w, pn, wp, w2, slope = ctx.saved_tensors
        dt = grads[0].contiguous()
        users, count, memory, width, hidden = len(a), w.shape[1], a.shape[1], a.shape[2], len(w2)
        block = min(_block(count), 32)
        shared = (
            a, pa, w, pn, wp, w2, slope, dt,
            *a.stride(), *pa.stride(), *w.stride(), *pn.stride(),
            count, memory, width, hidden,
        )  # fmt: skip
        sizes = {"C": block, "K": TILE, "D": _padded(width), "PRECISE": _precise(a)}
        dw, dpn = torch.empty_like(w, memory_format=torch.contiguous_format), pn.new_empty(pn.shape)
        _to_nodes[(users, -(-count // block))](*shared, dw, dpn, **sizes)
        da, dpa = torch.empty_like(a), pa.new_empty(pa.shape)
        part = torch.zeros((users, hidden, _padded(width) + 2), dtype=torch.float32, device=a.device)
        _to_history[(users,)](*shared, da, dpa, part, **sizes)
        whole = part.sum(0)  # [h, D + 2]
        return da, dpa, dw, dpn, whole[:, :width], whole[:, -2], whole[:, -1].sum()[None]


TILE = 16  # history items at a time: 69 fill 5 tiles


def _block(count: int) -> int:
    """Nodes at a time: few are wasted, and enough are there to fill the matrix units."""
    return min((16, 32, 64), key=lambda size: (-(-count // size) * size, -size))


def _padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


def _precise(a: Tensor) -> bool:
    return a.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32


if triton is not None:

    @triton.jit
    def _dot(x, y, PRECISE: tl.constexpr):  # type: ignore[no-untyped-def]
        return tl.dot(x, y, input_precision="ieee" if PRECISE else "tf32")

    @triton.jit
    def _forward(  # type: ignore[no-untyped-def]
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr, w2_ptr, slope_ptr, out_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, memory, width, hidden,
        C: tl.constexpr, K: tl.constexpr, D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """Some nodes of one user against the whole history."""
        u = tl.program_id(0).to(tl.int64)
        c = tl.program_id(1) * C + tl.arange(0, C)
        d = tl.arange(0, D)
        slope = tl.load(slope_ptr)
        w = tl.load(
            w_ptr + u * w_u + c[:, None] * w_c + d[None, :] * w_d,
            mask=(c[:, None] < count) & (d[None, :] < width), other=0.0,
        )  # fmt: skip
        for first in range(0, memory, K):
            k = first + tl.arange(0, K)
            a = tl.load(
                a_ptr + u * a_u + k[None, :] * a_k + d[:, None] * a_d,
                mask=(k[None, :] < memory) & (d[:, None] < width), other=0.0,
            )  # fmt: skip
            total = tl.zeros((C, K), dtype=tl.float32)
            for h in range(hidden):
                wp = tl.load(wp_ptr + h * width + d, mask=d < width, other=0.0)
                pa = tl.load(pa_ptr + u * pa_u + k * pa_k + h * pa_h, mask=k < memory, other=0.0)
                pn = tl.load(pn_ptr + u * pn_u + c * pn_c + h * pn_h, mask=c < count, other=0.0)
                met = _dot((w * wp[None, :]).to(w.dtype), a, PRECISE)
                met += pa[None, :].to(tl.float32) + pn[:, None].to(tl.float32)
                total += tl.load(w2_ptr + h) * tl.where(met > 0, met, slope * met)
            tl.store(
                out_ptr + (u * count + c[:, None]) * memory + k[None, :], total.to(w.dtype),
                mask=(c[:, None] < count) & (k[None, :] < memory),
            )  # fmt: skip

    @triton.jit
    def _to_nodes(  # type: ignore[no-untyped-def]
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr, w2_ptr, slope_ptr, dt_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, memory, width, hidden, dw_ptr, dpn_ptr,
        C: tl.constexpr, K: tl.constexpr, D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """What the nodes' vectors and shares gain: sums over the history."""
        u = tl.program_id(0).to(tl.int64)
        c = tl.program_id(1) * C + tl.arange(0, C)
        d = tl.arange(0, D)
        slope = tl.load(slope_ptr)
        inside = (c[:, None] < count) & (d[None, :] < width)
        w = tl.load(w_ptr + u * w_u + c[:, None] * w_c + d[None, :] * w_d, mask=inside, other=0.0)
        dw = tl.zeros((C, D), dtype=tl.float32)
        for h in range(hidden):
            wp = tl.load(wp_ptr + h * width + d, mask=d < width, other=0.0)
            pn = tl.load(pn_ptr + u * pn_u + c * pn_c + h * pn_h, mask=c < count, other=0.0).to(tl.float32)
            w2 = tl.load(w2_ptr + h)
            left = (w * wp[None, :]).to(w.dtype)
            dpn = tl.zeros((C,), dtype=tl.float32)
            back = tl.zeros((C, D), dtype=tl.float32)
            for first in range(0, memory, K):
                k = first + tl.arange(0, K)
                a = tl.load(
                    a_ptr + u * a_u + k[:, None] * a_k + d[None, :] * a_d,
                    mask=(k[:, None] < memory) & (d[None, :] < width), other=0.0,
                )  # fmt: skip
                pa = tl.load(pa_ptr + u * pa_u + k * pa_k + h * pa_h, mask=k < memory, other=0.0)
                dt = tl.load(
                    dt_ptr + (u * count + c[:, None]) * memory + k[None, :],
                    mask=(c[:, None] < count) & (k[None, :] < memory), other=0.0,
                ).to(tl.float32)  # fmt: skip
                met = _dot(left, tl.trans(a), PRECISE) + pa[None, :].to(tl.float32) + pn[:, None]
                dmet = dt * w2 * tl.where(met > 0, 1.0, slope)
                dpn += tl.sum(dmet, 1)
                back += _dot(dmet.to(w.dtype), a, PRECISE)
            dw += back * wp[None, :]
            tl.store(dpn_ptr + (u * count + c) * hidden + h, dpn.to(w.dtype), mask=c < count)
        tl.store(dw_ptr + (u * count + c[:, None]) * width + d[None, :], dw.to(w.dtype), mask=inside)

    @triton.jit
    def _to_history(  # type: ignore[no-untyped-def]
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr, w2_ptr, slope_ptr, dt_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, memory, width, hidden, da_ptr, dpa_ptr, part_ptr,
        C: tl.constexpr, K: tl.constexpr, D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """What the history and the weights gain: sums over the nodes; the weights' share is kept user by user."""
        u = tl.program_id(0).to(tl.int64)
        d = tl.arange(0, D)
        slope = tl.load(slope_ptr)
        for first in range(0, memory, K):
            k = first + tl.arange(0, K)
            inside = (k[:, None] < memory) & (d[None, :] < width)
            a = tl.load(a_ptr + u * a_u + k[:, None] * a_k + d[None, :] * a_d, mask=inside, other=0.0)
            across = tl.trans(a)
            da = tl.zeros((K, D), dtype=tl.float32)
            for h in range(hidden):
                wp = tl.load(wp_ptr + h * width + d, mask=d < width, other=0.0)
                pa = tl.load(pa_ptr + u * pa_u + k * pa_k + h * pa_h, mask=k < memory, other=0.0)
                w2 = tl.load(w2_ptr + h)
                back = tl.zeros((K, D), dtype=tl.float32)
                dpa = tl.zeros((K,), dtype=tl.float32)
                dw2 = tl.zeros((K,), dtype=tl.float32)
                dslope = tl.zeros((K,), dtype=tl.float32)
                for start in range(0, count, C):
                    c = start + tl.arange(0, C)
                    w = tl.load(
                        w_ptr + u * w_u + c[:, None] * w_c + d[None, :] * w_d,
                        mask=(c[:, None] < count) & (d[None, :] < width), other=0.0,
                    )  # fmt: skip
                    pn = tl.load(pn_ptr + u * pn_u + c * pn_c + h * pn_h, mask=c < count, other=0.0)
                    dt = tl.load(
                        dt_ptr + (u * count + c[:, None]) * memory + k[None, :],
                        mask=(c[:, None] < count) & (k[None, :] < memory), other=0.0,
                    ).to(tl.float32)  # fmt: skip
                    met = _dot((w * wp[None, :]).to(w.dtype), across, PRECISE)
                    met += pa[None, :].to(tl.float32) + pn[:, None].to(tl.float32)
                    below = tl.where(met > 0, 0.0, met)
                    dmet = dt * w2 * tl.where(met > 0, 1.0, slope)
                    dpa += tl.sum(dmet, 0)
                    dw2 += tl.sum(dt * (tl.where(met > 0, met, 0.0) + slope * below), 0)
                    dslope += tl.sum(dt * w2 * below, 0)
                    back += _dot(tl.trans(dmet).to(w.dtype), w, PRECISE)
                da += back * wp[None, :]
                tl.store(dpa_ptr + (u * memory + k) * hidden + h, dpa.to(a.dtype), mask=k < memory)
                # One program owns this row of `part`, so what the tiles before left there can be added to.
                row = part_ptr + (u * hidden + h) * (D + 2)
                tl.store(row + d, tl.load(row + d) + tl.sum(back * a.to(tl.float32), 0))
                tl.store(row + D, tl.load(row + D) + tl.sum(dw2))
                tl.store(row + D + 1, tl.load(row + D + 1) + tl.sum(dslope))
            tl.store(da_ptr + (u * memory + k[:, None]) * width + d[None, :], da.to(a.dtype), mask=inside)
