"""The compiled recurrence against torch, and its promise: the bits of a user do not depend on the batch."""

import numpy as np
import pytest
import torch

from shortlist.models.sequence.gru_kernel import FP16, FP32, INT8, advance, kernel_weights
from shortlist.models.state_model import RecurrentWeights

ITEMS = 20


def weights(width=8, personal=0, seed=0):
    torch.manual_seed(seed)
    return RecurrentWeights(
        torch.randn(3 * width, width + personal) / 3,
        torch.randn(3 * width, width) / 3,
        torch.randn(3 * width) / 3,
        torch.randn(3 * width) / 3,
    )


def world(rows=5, width=8, seed=0, personal=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, rows)
    starts = np.concatenate([[0], lengths.cumsum()])
    return (
        rng.normal(size=(rows, width)).astype(np.float32),
        starts,
        rng.integers(0, ITEMS, starts[-1]).astype(np.int32),
        rng.normal(size=(ITEMS, width)).astype(np.float32),
        rng.normal(size=(rows, personal)).astype(np.float32),
    )


def run(given, gru, storage=FP32):
    states, starts, items, vectors, personal = given
    return advance(states, starts, items, vectors, kernel_weights(gru), personal, storage)


def by_torch(given, gru):
    """One `gru_cell` per event in float64."""
    states, starts, items, vectors, personal = (torch.from_numpy(one) for one in given)
    args = [one.double() for one in (gru.w_input, gru.w_state, gru.b_input, gru.b_state)]
    after = states.double().clone()
    for row in range(len(states)):
        for item in items[starts[row] : starts[row + 1]]:
            inputs = torch.cat([vectors[item].double(), personal[row].double()])[None]
            after[row] = torch.gru_cell(inputs, after[row : row + 1], *args)[0]
    return after.numpy()


@pytest.mark.parametrize(("width", "personal"), [(8, 0), (8, 8), (5, 0), (1, 1), (7, 7)])
def test_kernel_is_the_gru_of_torch(width, personal):
    """Widths that are no multiple of four have a remainder in every product."""
    gru, given = weights(width, personal), world(width=width, personal=personal)
    np.testing.assert_allclose(run(given, gru)[0], by_torch(given, gru), atol=1e-5)


def test_gate_bias_keeps_a_state():
    """Spec test 17: with all weights 0 and the bias of the update gate 4, s' = 0.982014 s."""
    width = 4
    bias = torch.zeros(3 * width)
    bias[width : 2 * width] = 4.0
    gru = RecurrentWeights(torch.zeros(12, 4), torch.zeros(12, 4), torch.zeros(12), bias)
    states = np.ones((1, width), np.float32)
    found, _ = advance(
        states,
        np.array([0, 1]),
        np.zeros(1, np.int32),
        np.ones((1, 4), np.float32),
        kernel_weights(gru),
        states,
    )
    np.testing.assert_allclose(found, 0.982014, atol=1e-6)


def test_states_stay_in_the_box_of_their_start():
    """Spec test 18: |s'| <= max(|s|, 1) in every coordinate, on 10,000 draws."""
    states, starts, items, vectors, personal = world(rows=10_000)
    starts = np.arange(10_001)
    items = np.resize(items, 10_000)
    found, _ = run((3 * states, starts, items, vectors, personal), weights())
    assert (np.abs(found).max(1) <= np.maximum(np.abs(3 * states).max(1), 1) * (1 + 1e-6)).all()


@pytest.mark.parametrize("storage", [FP32, FP16, INT8])
@pytest.mark.parametrize("personal", [0, 8])
def test_result_of_a_user_has_the_same_bits_alone_and_in_a_batch_and_in_parts(storage, personal):
    gru, given = weights(personal=personal), world(rows=40, personal=personal)
    states, starts, items, vectors, own = given
    whole, scales = run(given, gru, storage)
    for row in range(len(states)):
        state = states[row : row + 1]
        for item in items[starts[row] : starts[row + 1]]:  # one event per call
            one = state, np.array([0, 1]), np.array([item], np.int32), vectors, own[row : row + 1]
            state, scale = run(one, gru, storage)
            assert scale.shape == (1,)
        if starts[row] < starts[row + 1]:
            assert state.tobytes() == whole[row].tobytes()
            assert scale[0] == scales[row]


def test_half_precision_rounds_as_numpy_does():
    rng = np.random.default_rng(0)
    values = (rng.normal(size=4000) * 10.0 ** rng.integers(-9, 5, 4000)).astype(np.float32)
    values[:6] = [0, -0.0, 65504, -65504, 2**-24, 2**-25]
    states, starts = np.clip(values, -65504, 65504).reshape(-1, 8), np.zeros(501, np.int64)
    given = (
        states,
        starts,
        np.zeros(0, np.int32),
        np.zeros((1, 8), np.float32),
        np.zeros((500, 0), np.float32),
    )
    found, _ = run(given, weights(), FP16)
    np.testing.assert_array_equal(found, states.astype(np.float16).astype(np.float32))


def test_int8_states_are_multiples_of_their_step_and_stay_when_rounded_again():
    given = world(rows=50)
    states, starts, _, vectors, own = given
    first, scales = run((states, np.zeros_like(starts), np.zeros(0, np.int32), vectors, own), weights(), INT8)
    steps = first / scales[:, None]
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.abs(steps).max() <= 127
    assert np.abs(first - states).max() <= scales.max()
    again, same = run((first, np.zeros_like(starts), np.zeros(0, np.int32), vectors, own), weights(), INT8)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(same, scales)


def test_tiny_states_are_zero_in_int8():
    states = np.full((1, 8), 1e-35, np.float32)
    given = states, np.zeros(2, np.int64), np.zeros(0, np.int32), states, np.zeros((1, 0), np.float32)
    found, scales = run(given, weights(), INT8)
    assert not found.any()
    assert not scales.any()


@pytest.mark.parametrize("item", [-1, ITEMS])
def test_item_outside_of_the_vectors_is_refused(item):
    states, starts, items, vectors, own = world()
    items[0] = item
    with pytest.raises(IndexError, match="outside"):
        run((states, starts, items, vectors, own), weights())
