import os

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes import ScorerConfig, make_scorer, mlp, triton_norm
from shortlist.models.nodes.triton_norm import HAS_TRITON, _sizes, norm_prelu

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# TRITON_INTERPRET=1 runs the kernels on a CPU, slowly.
runs = pytest.mark.skipif(
    not (HAS_TRITON and (CUDA or os.environ.get("TRITON_INTERPRET") == "1")),
    reason="needs triton and a CUDA device",
)


def plain(x, weight, bias, slope, eps):
    return F.prelu(F.layer_norm(x, x.shape[1:], weight, bias, eps), slope)


def value_and_gradients(form, x, seed=0, kind=torch.float32):
    random = torch.Generator().manual_seed(seed)
    width = x.shape[1]
    weight, bias = (torch.randn(width, generator=random).to(DEVICE).requires_grad_() for _ in range(2))
    slope = torch.tensor([0.3], device=DEVICE, requires_grad=True)
    x = x.to(DEVICE, kind).requires_grad_()
    cast = weight.to(kind), bias.to(kind), slope.to(kind)
    y = form(x, *(cast if form is plain else (weight, bias, slope)), 1e-5)
    up = torch.rand(y.shape, generator=random).to(DEVICE)
    (y.float() * up).sum().backward()
    return [y.detach().float(), *(part.grad.float() for part in (x, weight, bias, slope))]


@runs
@pytest.mark.parametrize("width", [1, 5, 24, 64, 128])
@pytest.mark.parametrize("rows", [1, 7, 300])
def test_kernel_values_and_gradients_equal_the_plain_form(rows, width):
    x = 3 * torch.randn(rows, width, generator=torch.Generator().manual_seed(1)) + 0.5
    for found, expected in zip(
        value_and_gradients(norm_prelu, x), value_and_gradients(plain, x), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@runs
def test_blocks_with_several_iterations_accumulate(monkeypatch):
    monkeypatch.setattr(triton_norm, "BLOCKS", 2)
    monkeypatch.setattr(triton_norm, "CELLS", 64)
    x = torch.randn(50, 24, generator=torch.Generator().manual_seed(3))
    for found, expected in zip(
        value_and_gradients(norm_prelu, x), value_and_gradients(plain, x), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@runs
def test_an_empty_input_gives_an_empty_output():
    assert norm_prelu(torch.zeros(0, 24, device=DEVICE), *(torch.ones(24, device=DEVICE),) * 2,
                       torch.ones(1, device=DEVICE), 1e-5).shape == (0, 24)  # fmt: skip


@pytest.mark.skipif(not CUDA, reason="half precision needs a GPU")
@runs
def test_half_precision_is_close():
    x = torch.randn(500, 128, generator=torch.Generator().manual_seed(3))
    for found, expected in zip(
        value_and_gradients(norm_prelu, x, kind=torch.bfloat16), value_and_gradients(plain, x), strict=True
    ):
        assert (found - expected).norm() < 0.02 * expected.norm()


def test_the_plain_form_runs_on_a_cpu(monkeypatch):
    monkeypatch.setattr(mlp, "norm_prelu", lambda *arguments: pytest.fail("the kernel needs a GPU"))
    monkeypatch.setattr(mlp, "HAS_TRITON", True)
    scorer = make_scorer(ScorerConfig(50, kind="mlp", windows=(3, 2, 1)), 0)
    scorer.score(scorer.prepare(torch.tensor([[4, 9, -1, 3, 8, 1]])), torch.arange(10)[None])


@pytest.mark.parametrize(
    ("width", "wide", "rows"), [(3, 16, 256), (24, 32, 128), (128, 128, 32), (9000, 16384, 1)]
)
def test_block_sizes_hold_whole_rows(width, wide, rows):
    assert _sizes(torch.zeros(2, width)) == {"ROWS": rows, "WIDE": wide}
