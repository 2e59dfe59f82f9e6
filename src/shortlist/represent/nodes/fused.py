"""The attention unit in one GPU kernel: what lies between a history item and a node never meets memory.

For user u, node c and history item k the unit is

    t[u, c, k] = sum over h of w2[h] * prelu(pa[u, k, h] + pn[u, c, h] + sum over d of wp[h, d] a[u, k, d] w[u, c, d])

The plain form writes the bracket, 2,484 numbers for a node and a history of 69; the kernel keeps it in registers,
and the backward pass computes it again instead of reading it back.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
# ruff: noqa: N803, PLR0915 - sizes known to the compiler are written large, and a kernel is one function

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
        users, memory = a.shape[:2]
        out = torch.empty((users, w.shape[1], memory), dtype=a.dtype, device=a.device)
        tiles = _tiles(a, w)
        grid = (users, _chunks(w, tiles))
        _forward[grid](*_arguments(a, pa, w, pn, wp), w2, slope, out, **tiles)
        ctx.save_for_backward(a, pa, w, pn, wp, w2, slope)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, pa, w, pn, wp, w2, slope = ctx.saved_tensors
        dt = grads[0].contiguous()
        tiles = _tiles(a, w)
        users, chunks, width, hidden = len(a), _chunks(w, tiles), a.shape[2], len(w2)
        dw, dpn = w.new_empty(w.shape), pn.new_empty(pn.shape)
        da = torch.empty((chunks, *a.shape), dtype=a.dtype if chunks == 1 else torch.float32, device=a.device)
        dpa = torch.empty((chunks, *pa.shape), dtype=da.dtype, device=a.device)
        part = torch.empty((chunks, users, hidden, tiles["D"]), dtype=torch.float32, device=a.device)
        _backward[(users, chunks)](
            *_arguments(a, pa, w, pn, wp), w2, slope, dt, da, dpa, dw, dpn, part, **tiles
        )
        da, dpa, dwp = da.sum(0).to(a.dtype), dpa.sum(0), part.sum((0, 1))[:, :width]
        # The kernel leaves w2 out of dpa, dpn and dwp, so that the gradients of w2 and of the slope are sums of these.
        dw2 = _dots(pa, dpa) + _dots(pn, dpn) + (wp * dwp).sum(1)  # sum of dt * prelu(bracket) [h]
        bend = torch.where((1 - slope).abs() < 1e-2, 1e-2, 1 - slope)  # nothing bends at a slope of 1
        dslope = (w2 * (_straight(a, pa, w, pn, wp, dt) - dw2)).sum() / bend
        dpa, dpn = (dpa * w2).to(pa.dtype), dpn * w2.to(pn.dtype)
        return da, dpa, dw, dpn, dwp * w2[:, None], dw2, dslope


def _dots(x: Tensor, y: Tensor) -> Tensor:
    """Products summed over all but the last axis."""
    return (x * y).sum((0, 1), dtype=torch.float32)


def _straight(a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor, dt: Tensor) -> Tensor:
    """The sum of dt * bracket [h], which is a sum of products because the bracket itself is bilinear."""
    met = torch.bmm(dt.transpose(1, 2), w) * a  # [U, K, D]
    by_item = torch.einsum("uk,ukh->h", dt.sum(1, dtype=torch.float32), pa.float())
    by_node = torch.einsum("uc,uch->h", dt.sum(2, dtype=torch.float32), pn.float())
    return by_item + by_node + wp @ met.sum((0, 1), dtype=torch.float32)


def _arguments(a: Tensor, pa: Tensor, w: Tensor, pn: Tensor, wp: Tensor) -> tuple[Any, ...]:
    strides = (*a.stride(), *pa.stride(), *w.stride(), *pn.stride())
    return (a, pa, w, pn, wp, *strides, w.shape[1], a.shape[1], a.shape[2], len(wp))


def _tiles(a: Tensor, w: Tensor) -> dict[str, Any]:
    """Nodes and history items are taken in two powers of two at a time: 71 and 69 fill 64 + 16 well."""
    (c1, c2), (k1, k2) = _pair(w.shape[1]), _pair(a.shape[1])
    precise = a.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
    width = max(16, 1 << (a.shape[2] - 1).bit_length())
    warps = 4 if c1 * k1 >= 2048 else 1
    return {"C1": c1, "C2": c2, "K1": k1, "K2": k2, "D": width, "PRECISE": precise, "num_warps": warps}


def _pair(count: int) -> tuple[int, int]:
    """Two powers of two whose sum wastes little; more than 80 come in several turns."""
    for pair in ((16, 0), (32, 0), (32, 16), (64, 0)):
        if count <= sum(pair):
            return pair
    return min(((64, 16), (64, 0)), key=lambda pair: -(-count // sum(pair)) * sum(pair))


def _chunks(w: Tensor, tiles: dict[str, Any]) -> int:
    return int(-(-w.shape[1] // (tiles["C1"] + tiles["C2"])))


if triton is not None:

    @triton.jit
    def _grid(ptr, rows, row_step, columns, column_step, n_rows, n_columns):
        """Part of a matrix, 0 outside of it."""
        inside = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        return tl.load(
            ptr + rows[:, None] * row_step + columns[None, :] * column_step, mask=inside, other=0.0
        )

    @triton.jit
    def _line(ptr, places, step, count):
        return tl.load(ptr + places * step, mask=places < count, other=0.0).to(tl.float32)

    @triton.jit
    def _dot(x, y, PRECISE: tl.constexpr):
        return tl.dot(x, y, input_precision="ieee" if PRECISE else "tf32")

    @triton.jit
    def _bent(left, across, pa, pn, slope, PRECISE: tl.constexpr):
        """prelu of the bracket for some nodes and items."""
        met = _dot(left, across, PRECISE) + pa[None, :] + pn[:, None]
        return tl.where(met > 0, met, slope * met)

    @triton.jit
    def _bent_back(left, across, pa, pn, slope, dt, PRECISE: tl.constexpr):
        """dt through prelu, without w2."""
        met = _dot(left, across, PRECISE) + pa[None, :] + pn[:, None]
        return dt * tl.where(met > 0, 1.0, slope)

    @triton.jit
    def _put(ptr, rows, columns, n_rows, n_columns, values):
        inside = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        tl.store(
            ptr + rows[:, None] * n_columns + columns[None, :], values.to(ptr.dtype.element_ty), mask=inside
        )

    @triton.jit
    def _forward(
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, memory, width, hidden, w2_ptr, slope_ptr, out_ptr,
        C1: tl.constexpr, C2: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
        D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """Some nodes of one user against the whole history."""
        u = tl.program_id(0).to(tl.int64)
        a_ptr, pa_ptr, w_ptr, pn_ptr = a_ptr + u * a_u, pa_ptr + u * pa_u, w_ptr + u * w_u, pn_ptr + u * pn_u
        out_ptr += u * count * memory
        d = tl.arange(0, D)
        c1 = tl.program_id(1) * (C1 + C2) + tl.arange(0, C1)
        w1 = _grid(w_ptr, c1, w_c, d, w_d, count, width)
        if C2 > 0:
            c2 = tl.program_id(1) * (C1 + C2) + C1 + tl.arange(0, C2)
            w2 = _grid(w_ptr, c2, w_c, d, w_d, count, width)
        slope = tl.load(slope_ptr)
        for first in range(0, memory, K1 + K2):
            k1 = first + tl.arange(0, K1)
            a1 = _grid(a_ptr, d, a_d, k1, a_k, width, memory)  # [D, K1]
            t11 = tl.zeros((C1, K1), dtype=tl.float32)
            if C2 > 0:
                t21 = tl.zeros((C2, K1), dtype=tl.float32)
            if K2 > 0:
                k2 = first + K1 + tl.arange(0, K2)
                a2 = _grid(a_ptr, d, a_d, k2, a_k, width, memory)
                t12 = tl.zeros((C1, K2), dtype=tl.float32)
                if C2 > 0:
                    t22 = tl.zeros((C2, K2), dtype=tl.float32)
            for h in range(hidden):
                wp = _line(wp_ptr + h * width, d, 1, width)
                share = tl.load(w2_ptr + h)
                left1 = (w1 * wp[None, :]).to(w1.dtype)
                pn1 = _line(pn_ptr + h * pn_h, c1, pn_c, count)
                pa1 = _line(pa_ptr + h * pa_h, k1, pa_k, memory)
                t11 += share * _bent(left1, a1, pa1, pn1, slope, PRECISE)
                if K2 > 0:
                    pa2 = _line(pa_ptr + h * pa_h, k2, pa_k, memory)
                    t12 += share * _bent(left1, a2, pa2, pn1, slope, PRECISE)
                if C2 > 0:
                    left2 = (w2 * wp[None, :]).to(w1.dtype)
                    pn2 = _line(pn_ptr + h * pn_h, c2, pn_c, count)
                    t21 += share * _bent(left2, a1, pa1, pn2, slope, PRECISE)
                    if K2 > 0:
                        t22 += share * _bent(left2, a2, pa2, pn2, slope, PRECISE)
            _put(out_ptr, c1, k1, count, memory, t11)
            if K2 > 0:
                _put(out_ptr, c1, k2, count, memory, t12)
            if C2 > 0:
                _put(out_ptr, c2, k1, count, memory, t21)
                if K2 > 0:
                    _put(out_ptr, c2, k2, count, memory, t22)

    @triton.jit
    def _backward(
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, memory, width, hidden, w2_ptr, slope_ptr, dt_ptr,
        da_ptr, dpa_ptr, dw_ptr, dpn_ptr, part_ptr,
        C1: tl.constexpr, C2: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
        D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """All gradients from some nodes of one user; the bracket is computed again, dt is read once."""
        u, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
        place = chunk * tl.num_programs(0) + u
        a_ptr, pa_ptr, w_ptr, pn_ptr = a_ptr + u * a_u, pa_ptr + u * pa_u, w_ptr + u * w_u, pn_ptr + u * pn_u
        dt_ptr += u * count * memory
        dw_ptr, dpn_ptr = dw_ptr + u * count * width, dpn_ptr + u * count * hidden
        da_ptr, dpa_ptr = da_ptr + place * memory * width, dpa_ptr + place * memory * hidden
        part_ptr += place * hidden * D
        d = tl.arange(0, D)
        c1 = chunk * (C1 + C2) + tl.arange(0, C1)
        w1 = _grid(w_ptr, c1, w_c, d, w_d, count, width)
        dw1 = tl.zeros((C1, D), dtype=tl.float32)
        if C2 > 0:
            c2 = chunk * (C1 + C2) + C1 + tl.arange(0, C2)
            w2 = _grid(w_ptr, c2, w_c, d, w_d, count, width)
            dw2 = tl.zeros((C2, D), dtype=tl.float32)
        slope = tl.load(slope_ptr)
        for first in range(0, memory, K1 + K2):
            k1 = first + tl.arange(0, K1)
            a1 = _grid(a_ptr, k1, a_k, d, a_d, memory, width)  # [K1, D]
            da1 = tl.zeros((K1, D), dtype=tl.float32)
            dt11 = _grid(dt_ptr, c1, memory, k1, 1, count, memory).to(tl.float32)
            if C2 > 0:
                dt21 = _grid(dt_ptr, c2, memory, k1, 1, count, memory).to(tl.float32)
            if K2 > 0:
                k2 = first + K1 + tl.arange(0, K2)
                a2 = _grid(a_ptr, k2, a_k, d, a_d, memory, width)
                da2 = tl.zeros((K2, D), dtype=tl.float32)
                dt12 = _grid(dt_ptr, c1, memory, k2, 1, count, memory).to(tl.float32)
                if C2 > 0:
                    dt22 = _grid(dt_ptr, c2, memory, k2, 1, count, memory).to(tl.float32)
            for h in range(hidden):
                wp = _line(wp_ptr + h * width, d, 1, width)
                scale = wp * tl.load(w2_ptr + h)
                left1 = (w1 * wp[None, :]).to(w1.dtype)
                pn1 = _line(pn_ptr + h * pn_h, c1, pn_c, count)
                pa1 = _line(pa_ptr + h * pa_h, k1, pa_k, memory)
                m11 = _bent_back(left1, tl.trans(a1), pa1, pn1, slope, dt11, PRECISE)
                dpa1, dpn1 = tl.sum(m11, 0), tl.sum(m11, 1)
                m11 = m11.to(w1.dtype)
                to_w1 = _dot(m11, a1, PRECISE)
                to_a1 = _dot(tl.trans(m11), w1, PRECISE)
                if K2 > 0:
                    pa2 = _line(pa_ptr + h * pa_h, k2, pa_k, memory)
                    m12 = _bent_back(left1, tl.trans(a2), pa2, pn1, slope, dt12, PRECISE)
                    dpa2 = tl.sum(m12, 0)
                    dpn1 += tl.sum(m12, 1)
                    m12 = m12.to(w1.dtype)
                    to_w1 += _dot(m12, a2, PRECISE)
                    to_a2 = _dot(tl.trans(m12), w1, PRECISE)
                if C2 > 0:
                    left2 = (w2 * wp[None, :]).to(w1.dtype)
                    pn2 = _line(pn_ptr + h * pn_h, c2, pn_c, count)
                    m21 = _bent_back(left2, tl.trans(a1), pa1, pn2, slope, dt21, PRECISE)
                    dpa1 += tl.sum(m21, 0)
                    dpn2 = tl.sum(m21, 1)
                    m21 = m21.to(w1.dtype)
                    to_w2 = _dot(m21, a1, PRECISE)
                    to_a1 += _dot(tl.trans(m21), w2, PRECISE)
                    if K2 > 0:
                        m22 = _bent_back(left2, tl.trans(a2), pa2, pn2, slope, dt22, PRECISE)
                        dpa2 += tl.sum(m22, 0)
                        dpn2 += tl.sum(m22, 1)
                        m22 = m22.to(w1.dtype)
                        to_w2 += _dot(m22, a2, PRECISE)
                        to_a2 += _dot(tl.trans(m22), w2, PRECISE)
                    dw2 += to_w2 * scale[None, :]
                    _add(dpn_ptr + h, c2, hidden, count, dpn2, first > 0)
                dw1 += to_w1 * scale[None, :]
                da1 += to_a1 * scale[None, :]
                share = tl.sum(to_a1 * a1.to(tl.float32), 0)
                _add(dpn_ptr + h, c1, hidden, count, dpn1, first > 0)
                _add(dpa_ptr + h, k1, hidden, memory, dpa1, False)
                if K2 > 0:
                    da2 += to_a2 * scale[None, :]
                    share += tl.sum(to_a2 * a2.to(tl.float32), 0)
                    _add(dpa_ptr + h, k2, hidden, memory, dpa2, False)
                _add(part_ptr + h * D, d, 1, D, share, first > 0)
            _put(da_ptr, k1, d, memory, width, da1)
            if K2 > 0:
                _put(da_ptr, k2, d, memory, width, da2)
        _put(dw_ptr, c1, d, count, width, dw1)
        if C2 > 0:
            _put(dw_ptr, c2, d, count, width, dw2)

    @triton.jit
    def _add(ptr, places, step, count, values, again):
        """Write values, added to what an earlier turn of the same program left there."""
        inside = places < count
        before = tl.load(ptr + places * step, mask=inside & again, other=0.0).to(tl.float32)
        tl.store(ptr + places * step, (before + values).to(ptr.dtype.element_ty), mask=inside)
