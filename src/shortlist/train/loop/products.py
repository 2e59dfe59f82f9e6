"""Products of float32 matrices on a CPU: by oneDNN instead of MKL, where both are equally exact."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fast_products() -> Iterator[None]:
    """Inside the block oneDNN computes large products of matrices on a CPU.

    It uses AVX-512 on every processor that has it, MKL only on those of Intel. PyTorch hands products to oneDNN where
    bfloat16 is allowed; processors with AMX would use that and lose precision, so they keep MKL.
    """
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    if torch.cpu._is_amx_tile_supported() or before != "none":  # otherwise the caller has chosen a precision
        yield
        return
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before
