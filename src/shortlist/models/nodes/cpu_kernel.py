"""Attention scores on one CPU core, from rows to scores in one call.

Candidates are on the last axis, the lanes of the vector unit, so nothing is summed across lanes and nothing of size
[candidates, history, hidden] is stored. Float32; the GIL is released.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.models.nodes.simd_blocks import LANES, ROWS, attend_block, product_block

Floats = NDArray[np.float32]
Function = TypeVar("Function", bound=Callable[..., Any])

TILE = 320  # lanes per tile: their vectors stay in the first-level cache
NO_NORM, LAYER_NORM, BATCH_NORM = 0, 1, 2


def compiled(function: Function) -> Function:
    """Compile a function with numba; sums may be reordered and fused, NaN is preserved."""
    flags = {"reassoc", "contract", "nsz", "arcp"}
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function))


class Unit(NamedTuple):
    """The weights of the attention unit."""

    weight1: Floats  # [h, 3D] of [a; a * w; w]
    bias1: Floats  # [h]
    slope1: Floats  # [1]
    weight2: Floats  # [1, h]
    bias2: Floats  # [1]
    slope2: Floats  # [1]


class Layer(NamedTuple):
    """A linear layer with its norm and slope; the output layer too, with slope 1 if it is linear."""

    weight: Floats  # [F, I]
    bias: Floats  # [F]
    norm: int  # NO_NORM | LAYER_NORM | BATCH_NORM
    epsilon: float
    scale: Floats  # [F]
    shift: Floats  # [F]
    mean: Floats  # [F], of batch norm
    variance: Floats  # [F], of batch norm
    slope: Floats  # [1]


class KernelInputs(NamedTuple):
    """All arrays of a scorer."""

    nodes: Floats  # [n_rows, D]
    past: Floats  # the table of history rows: the node table or the item table
    unit: Unit
    layers: tuple[Layer, ...]
    spans: NDArray[np.int64]  # window lengths
    mean: bool  # windows are averaged, not summed


@compiled
def score_rows(
    a: Any, there: Any, pa: Any, first: Any, table: Any, rows: Any, unit: Any, layers: Any, out: Any
) -> None:
    """Fill out [U, C] for rows [U, C], or [1, C] if all users share them; the other arguments are an AttentionState."""
    for user in range(len(out)):
        own = rows[min(user, len(rows) - 1)]
        score_user(a[user], there[user], pa[user], first[user], table, own, unit, layers, out[user])


@compiled
def score_user(
    a: Any, there: Any, pa: Any, first: Any, table: Any, rows: Any, unit: Any, layers: Any, out: Any
) -> None:
    """Fill out [C] for rows [C] and the state of one user."""
    positions, left = _first_layer(a, there, first, layers[0].weight)
    for begin in range(0, len(rows), TILE):
        some = rows[begin : begin + TILE]
        scores = _layers(left, _inputs(a, pa, positions, table, some, unit), layers)
        for lane in range(len(some)):
            out[begin + lane] = scores[lane]


@compiled
def _first_layer(a: Any, there: Any, first: Any, weight: Any) -> Any:
    """Positions [n] of distinct vectors, and the first layer as it acts on [s; w]: [F, n + D].

    Equal vectors have equal attention, so their contributions to the layer are summed once.
    """
    max_history, width = a.shape
    left = np.zeros((max_history + width, first.shape[1]), np.float32)
    positions, count = np.empty(max_history, np.int64), 0
    for k in np.flatnonzero(there):
        at = 0
        while at < count and not _equal(a, positions[at], k):
            at += 1
        positions[at] = k if at == count else positions[at]
        count = max(count, at + 1)
        for f in range(left.shape[1]):
            left[at, f] += first[k, f]
    begin = weight.shape[1] - width
    for d in range(width):
        for f in range(len(weight)):
            left[count + d, f] = weight[f, begin + d]
    return positions[:count], left[: count + width].T


@compiled
def _equal(a: Any, row: Any, other: Any) -> bool:
    d = 0
    while d < a.shape[1] and a[row, d] == a[other, d]:
        d += 1
    return bool(d == a.shape[1])


@compiled
def _inputs(a: Any, pa: Any, positions: Any, table: Any, rows: Any, unit: Any) -> Any:
    """[s; w] as columns [n + D, lanes]: attention weights at the positions, then node vectors."""
    count, width = len(positions), table.shape[1]
    lanes = (len(rows) + LANES - 1) // LANES * LANES
    x = _lanes(count + width, lanes)
    s, w = x[:count], x[count:]
    w[:] = 0
    for lane in range(len(rows)):
        row = rows[lane]
        if row < 0 or row >= len(table):
            raise IndexError("a node row is outside of the node table")
        for d in range(width):
            w[d, lane] = table[row, d]
    _attend(a, pa, positions, w, unit, s)
    return x


@compiled
def _lanes(rows: int, lanes: int) -> Any:
    """An uninitialised array [rows, lanes] whose rows are aligned to cache lines."""
    line = 16
    raw = np.empty(rows * lanes + line, np.float32)
    begin = -(raw.ctypes.data // 4) % line
    return raw[begin : begin + rows * lanes].reshape(rows, lanes)


@compiled
def _attend(a: Any, pa: Any, positions: Any, w: Any, unit: Any, s: Any) -> None:
    """s [n, lanes] = prelu2(w2 . prelu1(pa + b1 + matrix w) + b2), one matrix on w per position."""
    hidden = (pa.shape[1] + ROWS - 1) // ROWS * ROWS  # zeros fill the last block
    matrix, start = np.zeros((hidden, len(w)), np.float32), np.zeros(hidden, np.float32)
    weight = np.zeros(hidden, np.float32)
    weight[: pa.shape[1]] = unit.weight2[0]
    slope1, slope2 = unit.slope1[0], unit.slope2[0]
    for n in range(len(positions)):
        _position(a[positions[n]], pa[positions[n]], unit, matrix, start)
        mine = s[n]
        mine[:] = unit.bias2[0]
        for lane in range(0, len(mine), LANES):
            for row in range(0, hidden, ROWS):
                attend_block(matrix, start, w, row, lane, weight, slope1, mine)
        for lane in range(len(mine)):
            mine[lane] = mine[lane] if mine[lane] > 0 else slope2 * mine[lane]


@compiled
def _position(a: Any, pa: Any, unit: Any, matrix: Any, start: Any) -> None:
    """matrix [h, D] = Wp diag(a) + Wn, start [h] = pa + b1."""
    width = len(a)
    for h in range(len(pa)):
        start[h] = pa[h] + unit.bias1[h]
        own, weight = matrix[h], unit.weight1[h]
        for d in range(width):
            own[d] = a[d] * weight[width + d] + weight[2 * width + d]


@compiled
def _layers(left: Any, x: Any, layers: Any) -> Any:
    """Scores [lanes] from the inputs of the first layer [I, lanes]."""
    x = _activated(_product(left, layers[0].bias, x), layers[0])
    for number in range(1, len(layers)):
        layer = layers[number]
        x = _activated(_product(layer.weight, layer.bias, x), layer)
    return x[0]


@compiled
def _product(left: Any, start: Any, right: Any) -> Any:
    """start + left [R, I] right [I, lanes]; rows that fill no block are computed one by one."""
    out = _lanes(len(left), right.shape[1])
    whole = len(left) - len(left) % ROWS
    for lane in range(0, right.shape[1], LANES):
        for row in range(0, whole, ROWS):
            product_block(left, start, right, row, lane, out)
    for row in range(whole, len(left)):
        own = out[row]
        own[:] = start[row]
        for i in range(len(right)):
            factor, other = left[row, i], right[i]
            for lane in range(len(own)):
                own[lane] += factor * other[lane]
    return out


@compiled
def _activated(x: Any, layer: Any) -> Any:
    """Norm and PReLU of x [F, lanes], in place."""
    if layer.norm == LAYER_NORM:
        _layer_norm(x, np.float32(layer.epsilon))
    for f in range(len(x)):
        scale, shift = layer.scale[f], layer.shift[f]
        if layer.norm == BATCH_NORM:
            scale /= np.sqrt(layer.variance[f] + np.float32(layer.epsilon))
            shift -= layer.mean[f] * scale
        slope, own = layer.slope[0], x[f]
        for lane in range(len(own)):
            y = own[lane] * scale + shift
            own[lane] = y if y > 0 else slope * y
    return x


@compiled
def _layer_norm(x: Any, epsilon: Any) -> None:
    """Every lane to mean 0 and variance 1."""
    count, lanes = np.float32(len(x)), x.shape[1]
    mean, factor = np.zeros(lanes, np.float32), np.zeros(lanes, np.float32)
    for f in range(len(x)):
        own = x[f]
        for lane in range(lanes):
            mean[lane] += own[lane]
    for lane in range(lanes):
        mean[lane] /= count
    for f in range(len(x)):
        own = x[f]
        for lane in range(lanes):
            own[lane] -= mean[lane]
            factor[lane] += own[lane] * own[lane]
    for lane in range(lanes):
        factor[lane] = np.float32(1) / np.sqrt(factor[lane] / count + epsilon)
    for f in range(len(x)):
        own = x[f]
        for lane in range(lanes):
            own[lane] *= factor[lane]


@compiled
def fill_state(
    history: Any,
    table: Any,
    unit: Any,
    weight: Any,
    windows: Any,
    mean: bool,
    a: Any,
    there: Any,
    pa: Any,
    first: Any,
) -> None:
    """Fill a [U, K, D], there [U, K], pa [U, K, h], first [U, K, F] for history rows [U, K], -1 = padding."""
    weights = padded_transpose(unit.weight1), padded_transpose(weight)
    for user in range(len(history)):
        mine = a[user], there[user], pa[user], first[user]
        fill_user(history[user], table, *weights, windows, mean, *mine)


@compiled
def padded_transpose(weight: Any) -> Any:
    """A matrix [F, I] as [I, F], zero-padded to a multiple of LANES columns."""
    count, inputs = weight.shape
    transposed = np.zeros((inputs, (count + LANES - 1) // LANES * LANES), np.float32)
    for i in range(inputs):
        for f in range(count):
            transposed[i, f] = weight[f, i]
    return transposed


@compiled
def fill_user(
    history: Any,
    table: Any,
    unit: Any,
    weight: Any,
    windows: Any,
    mean: bool,
    a: Any,
    there: Any,
    pa: Any,
    first: Any,
) -> None:
    """Fill the state of one user from history rows [K] and transposed weights of the unit and the first layer."""
    width = a.shape[1]
    for k in range(len(history)):
        row = history[k]
        if row >= len(table):
            raise IndexError("a history row is outside of its table")
        there[k] = row >= 0
        a[k] = table[max(row, 0)]
    _fill(a, unit[:width], np.float32(1), pa)
    begin = 0
    for window in range(len(windows)):
        end = begin + windows[window]
        length = np.float32(max(1, there[begin:end].sum()) if mean else 1)
        _fill(a[begin:end], weight[window * width : (window + 1) * width], length, first[begin:end])
        begin = end


@compiled
def _fill(a: Any, weight: Any, length: Any, out: Any) -> None:
    """out [k, F] = a [k, D] weight [D, F] / length."""
    products = _product(a, np.zeros(len(a), np.float32), weight)
    for k in range(len(out)):
        own, mine = out[k], products[k]
        for f in range(len(own)):
            own[f] = mine[f] / length
