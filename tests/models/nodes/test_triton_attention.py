import os
from types import SimpleNamespace

import pytest
import torch

from shortlist.models.nodes import ScorerConfig, attention, fused, make_scorer
from shortlist.models.nodes.attention import plain_weights
from shortlist.models.nodes.triton_attention import _chunks, _pair, _tiles, fused_is_here, fused_weights

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# TRITON_INTERPRET=1 runs the kernels on a processor, slowly.
runs = pytest.mark.skipif(
    not (fused_is_here and (CUDA or os.environ.get("TRITON_INTERPRET") == "1")),
    reason="needs triton and a CUDA device",
)
NAMES = ("a", "pa", "w", "pn", "wp", "w2", "b2", "slope1", "slope2")


def inputs(users, count, max_history, width=24, hidden=4, shared=False, seed=1):
    """What a unit is given, in the order of NAMES, and which history items are there."""
    random = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(*shape, generator=random)

    a = drawn(users, max_history, width)
    w = drawn(1, count, width).expand(users, -1, -1) if shared else drawn(users, count, width)
    wa, wn, wp = (0.3 * drawn(hidden, width) for _ in range(3))
    small = (wp, drawn(hidden), drawn(1), torch.tensor([0.25]), torch.tensor([0.3]))
    there = torch.rand(users, max_history, generator=random) > 0.2
    return [one.to(DEVICE) for one in (a, a @ wa.T, w, w @ wn.T, *small)], there.to(DEVICE)


def outcome(weights, given, there, half=False):
    """The weights and the gradients of everything they are made of."""
    leaves = [one.detach().requires_grad_() for one in given]
    a, *rest = leaves
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        found = weights(a, there, *rest)
    # All of one sign: a sum of thousands that cancel would say more about rounding than about the kernel.
    up = 0.5 + torch.rand(found.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    (found * up).sum().backward()
    return {"weights": found.detach(), **{n: one.grad for n, one in zip(NAMES, leaves, strict=True)}}


def oracle(given, there):
    """The plain form in double precision: in single, a bracket near zero may fall on the other side."""
    exact = outcome(plain_weights, [one.double() for one in given], there)
    return {name: one.float() for name, one in exact.items()}


def apart(one, two):
    return {name: float((one[name] - two[name]).norm() / one[name].norm()) for name in one}


@runs
@pytest.mark.parametrize("max_history", [9, 69, 100])
@pytest.mark.parametrize("count", [2, 7, 71, 150])
@pytest.mark.parametrize("shared", [False, True], ids=["own candidates", "shared candidates"])
def test_the_kernel_gives_the_values_and_gradients_of_the_plain_form(count, max_history, shared):
    given, there = inputs(2 if not CUDA else 9, count, max_history, hidden=36 if CUDA else 3, shared=shared)
    far = apart(oracle(given, there), outcome(fused_weights, given, there))
    assert max(far.values()) < 1e-5, far


@runs
@pytest.mark.parametrize(("width", "hidden"), [(5, 1), (16, 7), (40, 3)])
def test_any_width_will_do(width, hidden):
    given, there = inputs(2, 17, 21, width, hidden)
    far = apart(oracle(given, there), outcome(fused_weights, given, there))
    assert max(far.values()) < 1e-5, far


@runs
@pytest.mark.skipif(not CUDA, reason="half precision is for the device")
@pytest.mark.parametrize("count", [7, 71, 150])
@pytest.mark.parametrize("shared", [False, True], ids=["own candidates", "shared candidates"])
def test_half_precision_stays_near(count, shared):
    given, there = inputs(16, count, 69, hidden=36, shared=shared)
    far = apart(oracle(given, there), outcome(fused_weights, given, there, half=True))
    assert max(far.values()) < 0.1, far


@runs
def test_a_scorer_on_the_device_gives_the_numbers_of_its_naive_form():
    scorer = make_scorer(ScorerConfig(50, windows=(3, 2, 1), spread=1.0), 0).to(DEVICE)
    history = torch.tensor([[4, 9, -1, 3, 8, 1], [-1] * 6]).to(DEVICE)
    rows = torch.arange(20).to(DEVICE).view(2, 10)
    torch.testing.assert_close(
        scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows), rtol=1e-4, atol=1e-4
    )


@pytest.mark.skipif(fused_is_here, reason="triton is installed")
def test_without_triton_nothing_but_the_plain_form_is_there():
    assert fused.triton is None
    assert not hasattr(fused, "_forward")


def test_on_a_processor_the_plain_form_is_used(monkeypatch):
    used = []

    def plain(*given):
        used.append("plain")
        return plain_weights(*given)

    monkeypatch.setattr(attention, "plain_weights", plain)
    monkeypatch.setattr(
        attention, "fused_weights", lambda *given: pytest.fail("the kernel is for the device")
    )
    monkeypatch.setattr(attention, "fused_is_here", True)
    scorer = make_scorer(ScorerConfig(50, windows=(3, 2, 1)), 0)
    scorer.score(scorer.prepare(torch.tensor([[4, 9, -1, 3, 8, 1]])), torch.arange(10)[None])
    assert used == ["plain"]


def test_a_pair_of_powers_of_two_wastes_little():
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
        turns = -(-count // sum(pair))
        assert turns * sum(pair) - count < max(16, 80 if count > 80 else 32)
        assert all(size & (size - 1) == 0 for size in pair)


@pytest.mark.parametrize(
    ("count", "chunks"), [(1, 1), (71, 1), (80, 1), (81, 2), (128, 2), (150, 2), (300, 4)]
)
def test_chunks_hold_all_candidates(count, chunks):
    a, w = torch.zeros(3, 69, 24), torch.zeros(3, count, 24)
    tiles = _tiles(a, w)
    assert _chunks(w, tiles) == chunks
    assert chunks * (tiles["C1"] + tiles["C2"]) >= count
    assert tiles["K1"] + tiles["K2"] >= 69


@pytest.mark.parametrize(("width", "padded"), [(3, 16), (16, 32), (24, 32), (40, 64), (64, 128)])
def test_tiles_are_a_power_of_two_with_room_for_a_column_of_ones(width, padded):
    assert _tiles(torch.zeros(1, 9, width), torch.zeros(1, 9, width))["D"] == padded


def test_full_precision_is_kept_where_it_is_asked_for(monkeypatch):
    a = torch.zeros(1, 9, 24)
    for coarse in (False, True):
        monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace(allow_tf32=coarse))
        assert _tiles(a, a)["PRECISE"] != coarse
    assert not _tiles(a.bfloat16(), a.bfloat16())["PRECISE"]
