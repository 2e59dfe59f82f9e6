import os
from types import SimpleNamespace

import pytest
import torch

from shortlist.models.nodes import ScorerConfig, UnitInputs, attention, make_scorer, triton_kernels
from shortlist.models.nodes.blocked_attention import blocked_weights
from shortlist.models.nodes.triton_attention import HAS_TRITON, _chunks, _pair, _tiles, fused_weights
from shortlist.models.nodes.unit import plain_weights

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# TRITON_INTERPRET=1 runs the kernels on a CPU, slowly.
runs = pytest.mark.skipif(
    not (HAS_TRITON and (CUDA or os.environ.get("TRITON_INTERPRET") == "1")),
    reason="needs triton and a CUDA device",
)
NAMES = ("a", "pa", "w", "pn", "wp", "w2", "b2", "slope1", "slope2")


def inputs(users, count, max_history, width=24, hidden=4, shared=False, seed=1):
    """Inputs of the attention unit in the order of NAMES, and the mask of history items."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random)

    a = normal(users, max_history, width)
    w = normal(1, count, width).expand(users, -1, -1) if shared else normal(users, count, width)
    wa, wn, wp = (0.3 * normal(hidden, width) for _ in range(3))
    small = (wp, normal(hidden), normal(1), torch.tensor([0.25]), torch.tensor([0.3]))
    there = torch.rand(users, max_history, generator=random) > 0.2
    return [part.to(DEVICE) for part in (a, a @ wa.T, w, w @ wn.T, *small)], there.to(DEVICE)


def weights_and_gradients(weights, arguments, there, half=False):
    """The weights and the gradients of all inputs."""
    leaves = [part.detach().requires_grad_() for part in arguments]
    a, *rest = leaves
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        found = weights(UnitInputs(a, there, *rest))
    # All positive: a sum of thousands that cancel would mostly be rounding error.
    up = 0.5 + torch.rand(found.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    (found * up).sum().backward()
    return {"weights": found.detach(), **{name: leaf.grad for name, leaf in zip(NAMES, leaves, strict=True)}}


def oracle(arguments, there):
    """The plain form in float64: in float32 a value near zero may change its sign."""
    exact = weights_and_gradients(plain_weights, [part.double() for part in arguments], there)
    return {name: part.float() for name, part in exact.items()}


def relative_errors(expected, found):
    return {name: float((expected[name] - found[name]).norm() / expected[name].norm()) for name in expected}


@runs
@pytest.mark.parametrize("max_history", [9, 69, 100])
@pytest.mark.parametrize("count", [2, 7, 71, 150])
@pytest.mark.parametrize("shared", [False, True], ids=["own candidates", "shared candidates"])
def test_kernel_values_and_gradients_equal_the_plain_form(count, max_history, shared):
    arguments, there = inputs(
        2 if not CUDA else 9, count, max_history, hidden=36 if CUDA else 3, shared=shared
    )
    errors = relative_errors(oracle(arguments, there), weights_and_gradients(fused_weights, arguments, there))
    assert max(errors.values()) < 1e-5, errors


@runs
@pytest.mark.parametrize(("width", "hidden"), [(5, 1), (16, 7), (40, 3)])
def test_kernel_supports_any_width(width, hidden):
    arguments, there = inputs(2, 17, 21, width, hidden)
    errors = relative_errors(oracle(arguments, there), weights_and_gradients(fused_weights, arguments, there))
    assert max(errors.values()) < 1e-5, errors


@runs
@pytest.mark.skipif(not CUDA, reason="half precision needs a GPU")
@pytest.mark.parametrize("count", [7, 71, 150])
@pytest.mark.parametrize("shared", [False, True], ids=["own candidates", "shared candidates"])
def test_half_precision_is_close(count, shared):
    arguments, there = inputs(16, count, 69, hidden=36, shared=shared)
    errors = relative_errors(
        oracle(arguments, there), weights_and_gradients(fused_weights, arguments, there, half=True)
    )
    assert max(errors.values()) < 0.1, errors


@runs
def test_gpu_scores_equal_the_naive_form():
    scorer = make_scorer(ScorerConfig(50, windows=(3, 2, 1), spread=1.0), 0).to(DEVICE)
    history = torch.tensor([[4, 9, -1, 3, 8, 1], [-1] * 6]).to(DEVICE)
    rows = torch.arange(20).to(DEVICE).view(2, 10)
    torch.testing.assert_close(
        scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows), rtol=1e-4, atol=1e-4
    )


@pytest.mark.skipif(HAS_TRITON, reason="triton is installed")
def test_without_triton_only_the_plain_form_exists():
    assert triton_kernels.triton is None
    assert not hasattr(triton_kernels, "forward")


def test_on_a_cpu_gradients_are_blocked_and_scores_without_them_are_plain(monkeypatch):
    used = []

    def noted(name, weights):
        return lambda unit: used.append(name) or weights(unit)

    monkeypatch.setattr(attention, "plain_weights", noted("plain", plain_weights))
    monkeypatch.setattr(attention, "blocked_weights", noted("blocked", blocked_weights))
    monkeypatch.setattr(attention, "fused_weights", lambda unit: pytest.fail("the kernel needs a GPU"))
    monkeypatch.setattr(attention, "HAS_TRITON", True)
    scorer = make_scorer(ScorerConfig(50, windows=(3, 2, 1)), 0)
    inputs = torch.tensor([[4, 9, -1, 3, 8, 1]]), torch.arange(10)[None]
    with_gradients = scorer(*inputs)
    with torch.no_grad():
        torch.testing.assert_close(scorer(*inputs), with_gradients.detach())
    assert used == ["blocked", "plain"]


def test_a_pair_of_powers_of_two_pads_little():
    assert [_pair(count) for count in (1, 16, 17, 33, 48, 49, 64, 69, 71, 80)] == [
        (16, 0),
        (16, 0),
        (32, 0),
        (32, 16),
        (32, 16),
        (64, 0),
        (64, 0),
        (64, 16),
        (64, 16),
        (64, 16),
    ]
    for count in range(1, 2000):
        pair = _pair(count)
        iterations = -(-count // sum(pair))
        assert iterations * sum(pair) - count < max(16, 80 if count > 80 else 32)
        assert all(size & (size - 1) == 0 for size in pair)


@pytest.mark.parametrize(
    ("count", "chunks"), [(1, 1), (71, 1), (80, 1), (81, 2), (128, 2), (150, 2), (300, 4)]
)
def test_chunks_cover_all_candidates(count, chunks):
    a, w = torch.zeros(3, 69, 24), torch.zeros(3, count, 24)
    tiles = _tiles(a, w)
    assert _chunks(w, tiles) == chunks
    assert chunks * (tiles["C1"] + tiles["C2"]) >= count
    assert tiles["K1"] + tiles["K2"] >= 69


@pytest.mark.parametrize(("width", "padded"), [(3, 16), (16, 32), (24, 32), (40, 64), (64, 128)])
def test_tile_width_is_a_power_of_two_with_a_column_for_the_ones(width, padded):
    assert _tiles(torch.zeros(1, 9, width), torch.zeros(1, 9, width))["D"] == padded


def test_tf32_is_used_only_if_torch_allows_it(monkeypatch):
    a = torch.zeros(1, 9, 24)
    for tf32 in (False, True):
        monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace(allow_tf32=tf32))
        assert _tiles(a, a)["PRECISE"] != tf32
    assert not _tiles(a.bfloat16(), a.bfloat16())["PRECISE"]
