"""States of a GRU through sequences of events on one CPU core, one user after the other.

The result of a user has the same bits alone and in any batch, in one call and in several: every row is computed by
itself, and sums run along the gates, so that vector instructions do not change their order. No product goes through
BLAS. Float32; the GIL is released.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.models.state_model import RecurrentWeights

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

FP32, FP16, INT8 = 0, 1, 2  # number formats of stored states; every step ends in one
INT8_STEPS = 127
INT8_SPARE = 127  # bits of a step that are zero
INT8_LEAST = np.float32(1e-30)  # smaller states are zero
HALF_SHIFT = 13  # bits of a float32 that a float16 does not have
HALF_NORMAL = np.float32(2.0**-14)  # smallest normal float16
HALF_ROUND = np.float32(0.75)  # float32 numbers near it are multiples of 2**-24, as the smallest float16 are
HALF_MOST = np.float32(65504.0)


class KernelWeights(NamedTuple):
    """A GRU with transposed matrices: gates r, z, n one after the other on the last axis."""

    inputs: Floats  # [D, 3D] of the item vector
    personal: Floats  # [D, 3D] of the vector of the user, or [0, 3D]
    state: Floats  # [D, 3D]
    b_input: Floats  # [3D]
    b_state: Floats  # [3D]


def kernel_weights(weights: RecurrentWeights) -> KernelWeights:
    """The weights as the kernel reads them."""
    width = weights.w_state.shape[1]
    matrix, state, *biases = (
        np.ascontiguousarray(one.detach().float().numpy(force=True).T)
        for one in (weights.w_input, weights.w_state, weights.b_input, weights.b_state)
    )
    return KernelWeights(matrix[:width].copy(), matrix[width:].copy(), state, *biases)


def advance(
    states: Floats,
    starts: Integers,
    items: NDArray[np.int32],
    vectors: Floats,
    weights: KernelWeights,
    personal: Floats,
    storage: int = FP32,
) -> tuple[Floats, Floats]:
    """States [R, D] after the items[starts[r]:starts[r + 1]] of each row, and the steps of their int8 form [R].

    `vectors` [N, D] has the items. `personal` [R, D] has the vectors of the users, [0, D] where the GRU does not read
    them. With FP16 or INT8, the first states and the state after every event are rounded to what is stored.
    """
    if len(items) and not (items.min() >= 0 and items.max() < len(vectors)):
        raise IndexError("an item row is outside of the item vectors")
    after, scales = states.astype(np.float32), np.zeros(len(states), np.float32)
    _advance(after, scales, starts, items, vectors, *weights, personal, storage)
    return after, scales


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def _advance(states, scales, starts, items, vectors, wx, wp, wh, bx, bh, personal, storage):  # type: ignore[no-untyped-def]
    width = states.shape[1]
    first, given, own = np.empty(3 * width, np.float32), np.empty(3 * width, np.float32), bx
    recurrent = np.empty(3 * width, np.float32)
    for row in range(len(states)):
        state = states[row]
        scales[row] = _stored(state, storage)
        if len(wp):
            _product(bx, wp, personal[row], first)
            own = first
        for at in range(starts[row], starts[row + 1]):
            _product(own, wx, vectors[items[at]], given)
            _product(bh, wh, state, recurrent)
            _gates(given, recurrent, state)
            scales[row] = _stored(state, storage)


@compiled
def _product(start, matrix, vector, out):  # type: ignore[no-untyped-def]
    """out = start + vector @ matrix; four rows of the matrix at a time, summed one after the other."""
    out[:] = start
    whole = len(vector) - len(vector) % 4
    for d in range(0, whole, 4):
        a, b, c, e = vector[d], vector[d + 1], vector[d + 2], vector[d + 3]
        row, second, third, fourth = matrix[d], matrix[d + 1], matrix[d + 2], matrix[d + 3]
        for j in range(len(out)):
            out[j] = (((out[j] + a * row[j]) + b * second[j]) + c * third[j]) + e * fourth[j]
    for d in range(whole, len(vector)):
        a, row = vector[d], matrix[d]
        for j in range(len(out)):
            out[j] += a * row[j]


@compiled
def _gates(given, recurrent, state):  # type: ignore[no-untyped-def]
    """The state after an event, in place."""
    one, width = np.float32(1), len(state)
    for j in range(width):
        reset = one / (one + np.exp(-(given[j] + recurrent[j])))
        update = one / (one + np.exp(-(given[width + j] + recurrent[width + j])))
        new = np.tanh(given[2 * width + j] + reset * recurrent[2 * width + j])
        state[j] = (one - update) * new + update * state[j]


@compiled
def _stored(state, storage):  # type: ignore[no-untyped-def]
    """Round a state to what is stored, in place; the step of its int8 form, else 0."""
    if storage == FP16:
        _round_to_half(state)
    if storage == INT8:
        return _round_to_int8(state)
    return np.float32(0)


@compiled
def _round_to_half(state):  # type: ignore[no-untyped-def]
    """Round to the nearest float16, ties to even."""
    bits = state.view(np.int32)
    for j in range(len(state)):
        value = min(max(state[j], -HALF_MOST), HALF_MOST)
        small = (value + HALF_ROUND) - HALF_ROUND
        state[j] = value
        kept = (bits[j] + 0xFFF + ((bits[j] >> HALF_SHIFT) & 1)) >> HALF_SHIFT << HALF_SHIFT
        bits[j] = kept
        state[j] = small if abs(value) < HALF_NORMAL else state[j]


@compiled
def _round_to_int8(state):  # type: ignore[no-untyped-def]
    """Round to multiples of the largest absolute value over 127; that step.

    The step is rounded up to 17 bits: then its multiples are exact, and a state that is rounded again stays the same.
    """
    largest = np.float32(0)
    for j in range(len(state)):
        largest = max(largest, abs(state[j]))
    steps = np.full(1, largest / np.float32(INT8_STEPS), np.float32)
    bits = steps.view(np.int32)
    bits[0] = (bits[0] + INT8_SPARE) & ~INT8_SPARE
    step = steps[0] if largest > INT8_LEAST else np.float32(0)
    for j in range(len(state)):
        state[j] = np.rint(state[j] / step) * step + np.float32(0) if step > 0 else np.float32(0)  # no -0
    return step
