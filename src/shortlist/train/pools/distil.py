"""From a gate to item pools."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import PoolMixture
from shortlist.nominate.pools import Pools
from shortlist.train.pools.assignment import assign
from shortlist.train.pools.fitting.fit_sgd import parts_of
from shortlist.train.pools.fitting.triples import Triples

Floats = NDArray[np.float64]
CAP = 1.2


def distil(
    model: PoolMixture,
    triples: Triples,
    *,
    threshold: float | None = None,
    cap: float | None = CAP,
    min_size: int = 1,
) -> Pools:
    """Pools of the items for which each nominator has the largest mean weight; see `pools_from_gate`."""
    return pools_from_gate(mean_weights(model, triples), threshold=threshold, cap=cap, min_size=min_size)


@torch.no_grad()
def mean_weights(model: PoolMixture, triples: Triples) -> Floats:
    """The mean weight of every nominator over the contexts in which an item occurs [N, A].

    A gate without contexts has exact weights. An item without examples gets the mean over all contexts.
    """
    if not model.gate.of_contexts:
        return _array(model.gate.item_weights().T)
    total = model.log_sigma.new_zeros((model.n_items, model.n_experts), dtype=torch.float64)
    count = total.new_zeros(model.n_items)
    for part in parts_of(triples):
        total.index_add_(0, part.items, model.gate(part.contexts, part.items).exp().double())
        count.index_add_(0, part.items, torch.ones_like(part.items, dtype=torch.float64))
    for item in (count == 0).nonzero()[:, 0]:
        log_p = model.gate(triples.contexts, item.expand(len(triples.contexts)))
        total[item], count[item] = log_p.exp().double().mean(0), 1
    return _array((total / count[:, None]).T)


def pools_from_gate(
    weights: Floats | Tensor, *, threshold: float | None = None, cap: float | None = CAP, min_size: int = 1
) -> Pools:
    """Pools from the mean weights of nominators for items [N, A].

    Every item goes to one pool so that the sum of weights is largest with at most ceil(cap * A / N) items in a pool;
    without a cap, to the nominator with the largest weight. A pool with fewer than `min_size` items then gets those
    with its largest weights from larger pools, and copies where there are none to take. With a threshold an item also
    joins other pools with room where its weight is at least that.
    """
    values = _checked(weights)
    n_nominators, n_items = values.shape
    room = n_items if cap is None else _room(n_items, n_nominators, cap)
    if not 1 <= min_size <= room:
        raise ConfigError(f"pools: expected a min_size from 1 to the largest pool, {room}, got {min_size}")
    matrix = np.zeros(values.shape, dtype=np.bool_)
    matrix[assign(values, room), np.arange(n_items)] = True
    _fill(matrix, values, min_size)
    if threshold is not None:
        _join(matrix, values, threshold, room)
    return Pools(matrix)


def _join(matrix: NDArray[np.bool_], values: Floats, threshold: float, room: int) -> None:
    """Add the items of the largest weights from the threshold on, as long as a pool has room."""
    for own, weights in zip(matrix, values, strict=True):
        joins = np.flatnonzero(~own & (weights >= threshold))
        best = joins[np.argsort(-weights[joins], kind="stable")]
        own[best[: max(room - int(own.sum()), 0)]] = True


def _fill(matrix: NDArray[np.bool_], values: Floats, min_size: int) -> None:
    """Give too small pools the items of their largest weights.

    The pool that lacks the largest weight is served first, so that the result does not depend on the order of the
    nominators.
    """
    while (small := np.flatnonzero(matrix.sum(1) < min_size)).size:
        spare = matrix[matrix.sum(1) > min_size].any(0)  # items of pools that can give one
        offered = np.where(matrix[small] | ~(spare if spare.any() else np.True_), -np.inf, values[small])
        at = np.unravel_index(np.argmax(offered), offered.shape)
        if spare.any():
            matrix[:, at[1]] = False
        matrix[small[at[0]], at[1]] = True


def _room(n_items: int, n_nominators: int, cap: float) -> int:
    if not cap >= 1:
        raise ConfigError(
            f"pools: expected a cap of at least 1, got {cap}; a smaller one cannot hold all items"
        )
    return min(n_items, math.ceil(n_items * cap / n_nominators - 1e-9))


def _checked(weights: Floats | Tensor) -> Floats:
    values = _array(weights)
    if values.ndim != 2 or 0 in values.shape:
        raise DataError(f"pools: expected weights of nominators by items, got the shape {values.shape}")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
        raise DataError(f"pools: the weights of nominator {row} are not all finite; has the gate diverged?")
    return values


def _array(weights: Floats | Tensor) -> Floats:
    plain = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else weights
    return np.ascontiguousarray(plain, dtype=np.float64)
