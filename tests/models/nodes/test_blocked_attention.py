"""The blocked attention unit has the values and the gradients of the plain one, in the memory of a block."""

from itertools import chain

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from shortlist.models.nodes import UnitInputs, blocked_attention, plain_weights
from shortlist.models.nodes.blocked_attention import blocked_weights
from shortlist.models.nodes.unit import blocks

USERS, NODES, HISTORY, WIDTH, HIDDEN = 5, 7, 6, 4, 3


def arguments(nodes=NODES, dtype=torch.float64):
    """Inputs of the unit, all but the mask with gradients."""
    generator = torch.Generator().manual_seed(nodes)

    def some(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    there = torch.rand(USERS, HISTORY, generator=generator) < 0.7
    history = some(USERS, HISTORY, WIDTH), there, some(USERS, HISTORY, HIDDEN)
    unit = some(HIDDEN, WIDTH), some(HIDDEN), some(1), some(1), some(1)
    return UnitInputs(*history, some(USERS, nodes, WIDTH), some(USERS, nodes, HIDDEN), *unit)


def with_gradients(weights, given):
    """The weights and the gradients of all inputs of a weighted sum of them."""
    found = weights(given)
    factors = torch.linspace(-1, 2, found.numel(), dtype=found.dtype).view_as(found)
    trained = [one for one in given if one.requires_grad]
    return [found, *torch.autograd.grad((found * factors).sum(), trained)]


@pytest.mark.parametrize("block", [1, 300, 2000, 2**20])  # bytes: one pair, some nodes, some users, all
@pytest.mark.parametrize("nodes", [1, NODES])
def test_weights_and_gradients_equal_the_plain_ones(nodes, block, monkeypatch):
    monkeypatch.setattr(blocked_attention, "BLOCK", block)
    given = arguments(nodes)
    found, oracle = with_gradients(blocked_weights, given), with_gradients(plain_weights, given)
    for one, other in zip(found, oracle, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_threads_do_not_change_a_gradient_and_keep_their_number(monkeypatch):
    monkeypatch.setattr(blocked_attention, "BLOCK", 300)
    given, before = arguments(), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(with_gradients(blocked_weights, given))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


def test_gradients_equal_finite_differences():
    a, there, *rest = arguments(nodes=2)
    assert torch.autograd.gradcheck(lambda a, *rest: blocked_weights(UnitInputs(a, there, *rest)), (a, *rest))


def test_float32_gradients_are_close_to_those_in_float64():
    single = arguments(dtype=torch.float32)
    double = UnitInputs(
        *(
            one.detach().double().requires_grad_(one.requires_grad) if one.dtype != torch.bool else one
            for one in single
        )
    )
    for one, other in zip(
        with_gradients(blocked_weights, single), with_gradients(plain_weights, double), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_no_bracket_is_kept_for_the_backward_pass():
    kept = []
    given = arguments()
    with saved_tensors_hooks(lambda one: kept.append(one.numel()) or one, lambda one: one):
        blocked_weights(given)
    assert max(kept) <= USERS * NODES * HISTORY  # brackets have HIDDEN times as many numbers
    kept.clear()
    with saved_tensors_hooks(lambda one: kept.append(one.numel()) or one, lambda one: one):
        plain_weights(given)
    assert max(kept) >= USERS * NODES * HISTORY * HIDDEN


def test_blocks_cover_every_pair_once_and_stay_below_the_size():
    given = arguments()
    times = torch.zeros(USERS, NODES)
    for users, nodes in chain.from_iterable(blocks(given.pa, given.w, 1000)):
        times[users, nodes] += 1
        assert times[users, nodes].numel() * HISTORY * HIDDEN * given.pa.element_size() <= 1000
    assert (times == 1).all()
