"""Layer norm and PReLU in one GPU kernel: rows of 24 to 128 numbers are too short for one block each.

    y = prelu(weight * (x - mean) / deviation + bias)

The plain form reads and writes x four times and starts a block of threads per row; here a block takes many rows, and
the backward pass recomputes mean and deviation from x.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
# ruff: noqa: N803 - compile-time sizes are upper case

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - one of the two branches runs on any machine
    triton = None

HAS_TRITON: bool = triton is not None
CELLS = 4096  # numbers per block
BLOCKS = 1056  # blocks that accumulate gradients of the weights, a few per multiprocessor


def norm_prelu(x: Tensor, weight: Tensor, bias: Tensor, slope: Tensor, eps: float) -> Tensor:
    """prelu(layer norm(x)) over the last axis of x [R, F], in the dtype of x, on CUDA."""
    out: Tensor = _NormPReLU.apply(x.contiguous(), weight, bias, slope, eps)  # type: ignore[no-untyped-call]
    return out


class _NormPReLU(torch.autograd.Function):
    """y and its gradients; sums in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, slope: Tensor, eps: float) -> Tensor:
        out = torch.empty_like(x)
        if len(x):
            sizes = _sizes(x)
            grid = (-(-len(x) // sizes["ROWS"]),)
            _forward[grid](x, weight, bias, slope, out, len(x), x.shape[1], eps, **sizes)
        ctx.save_for_backward(x, weight, bias, slope)
        ctx.eps = eps
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, slope = ctx.saved_tensors
        dy, dx, sizes = grads[0].contiguous(), torch.empty_like(x), _sizes(x)
        blocks = max(min(BLOCKS, -(-len(x) // sizes["ROWS"])), 1)
        parts = torch.empty((3, blocks, sizes["WIDE"]), device=x.device)
        arguments = (x, weight, bias, slope, dy, dx, parts)
        _backward[(blocks,)](*arguments, len(x), x.shape[1], ctx.eps, blocks * sizes["WIDE"], **sizes)
        dweight, dbias, dslope = parts.sum(1)[:, : x.shape[1]]
        return dx, dweight, dbias, dslope.sum()[None], None


def _sizes(x: Tensor) -> dict[str, int]:
    wide = max(16, 1 << (x.shape[1] - 1).bit_length())
    return {"ROWS": max(CELLS // wide, 1), "WIDE": wide}


if triton is not None:

    @triton.jit
    def _normalized(x, inside, width, eps):
        """Rows with mean 0 and deviation 1, 0 outside, and the inverse of their deviation."""
        x -= (tl.sum(x, 1) / width)[:, None]
        x = tl.where(inside, x, 0.0)
        inverse = tl.rsqrt(tl.sum(x * x, 1) / width + eps)
        return x * inverse[:, None], inverse

    @triton.jit
    def _forward(
        x_ptr, weight_ptr, bias_ptr, slope_ptr, out_ptr, count, width, eps,
        ROWS: tl.constexpr, WIDE: tl.constexpr,
    ):  # fmt: skip
        f = tl.arange(0, WIDE)
        rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        inside = (rows[:, None] < count) & (f[None, :] < width)
        at = rows[:, None] * width + f[None, :]
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + f, mask=f < width, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + f, mask=f < width, other=0.0).to(tl.float32)
        normal, _ = _normalized(x, inside, width, eps)
        z = normal * weight[None, :] + bias[None, :]
        y = tl.where(z > 0, z, z * tl.load(slope_ptr).to(tl.float32))
        tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)

    @triton.jit
    def _backward(
        x_ptr, weight_ptr, bias_ptr, slope_ptr, dy_ptr, dx_ptr, parts_ptr, count, width, eps, step,
        ROWS: tl.constexpr, WIDE: tl.constexpr,
    ):  # fmt: skip
        """Every block processes rows across the matrix and writes one row of each of the three sums."""
        f = tl.arange(0, WIDE)
        weight = tl.load(weight_ptr + f, mask=f < width, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + f, mask=f < width, other=0.0).to(tl.float32)
        slope = tl.load(slope_ptr).to(tl.float32)
        dweight, dbias = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
        dslope = tl.zeros((WIDE,), dtype=tl.float32)
        for first in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
            rows = first + tl.arange(0, ROWS)
            inside = (rows[:, None] < count) & (f[None, :] < width)
            at = rows[:, None].to(tl.int64) * width + f[None, :]
            x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
            dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
            normal, inverse = _normalized(x, inside, width, eps)
            z = normal * weight[None, :] + bias[None, :]
            dslope += tl.sum(tl.where(z > 0, 0.0, dy * z), 0)
            dz = tl.where(z > 0, dy, dy * slope)
            dbias += tl.sum(dz, 0)
            dweight += tl.sum(dz * normal, 0)
            dnormal = dz * weight[None, :]
            along = (tl.sum(dnormal * normal, 1) / width)[:, None] * normal
            dx = (dnormal - (tl.sum(dnormal, 1) / width)[:, None] - along) * inverse[:, None]
            tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        parts_ptr += tl.program_id(0) * WIDE + f
        tl.store(parts_ptr, dweight)
        tl.store(parts_ptr + step, dbias)
        tl.store(parts_ptr + 2 * step, dslope)
