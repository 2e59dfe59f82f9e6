"""Attention of a node over the history: each window of the history is summed with the node's attention weights."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.blocked_attention import blocked_weights
from shortlist.models.nodes.config import ScorerConfig
from shortlist.models.nodes.cpu_kernel import KernelInputs, fill_state, score_rows
from shortlist.models.nodes.mlp import Layers
from shortlist.models.nodes.scorer import (
    NodeScorer,
    PReLU,
    State,
    at_least_float32,
    last,
    zero_bias,
)
from shortlist.models.nodes.triton_attention import HAS_TRITON, fused_weights
from shortlist.models.nodes.unit import UnitInputs, plain_weights
from shortlist.models.nodes.weight_views import WeightViews, array, weight_views

MULTIPLE = 8  # histories are padded to a multiple of this on a GPU, for the matrix units


class AttentionState(NamedTuple):
    """The history's part of the attention unit and of the first layer."""

    a: Tensor  # [U, K, D] history vectors
    there: Tensor  # bool [U, K], False = padding
    pa: Tensor  # [U, K, h] contribution of a history vector alone to the unit
    first: Tensor  # [U, F, K] contribution of a history vector of weight 1 to the first layer


class AttentionScorer(NodeScorer):
    """score = layers([z_1; ...; z_T; w]), z_t = sum over window t of unit([a; a * w; w]) a.

    No softmax over the history; padding never enters the unit. The fast form is an exact regrouping: where the weights
    of the unit and of the first layer are linear, they act on history and node separately.
    """

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__(config)
        self.unit1 = nn.Linear(3 * config.width, config.hidden)  # [a; a * w; w]
        self.act1 = PReLU()
        self.unit2 = nn.Linear(config.hidden, 1)
        self.act2 = PReLU()
        self.spans = np.array(config.windows)
        self._views: WeightViews | None = None
        self.layers = Layers(config, (len(config.windows) + 1) * config.width)
        if not config.bias:
            zero_bias(self)

    def prepare(self, history: Tensor) -> State:
        return self._prepare_on_cpu(history) if self._uses_cpu_kernel() else self._prepare(history)

    def score(self, state: State, rows: Tensor) -> Tensor:
        return self._score_on_cpu(state, rows) if self._uses_cpu_kernel() else super().score(state, rows)

    def score_all(self, state: State, rows: Tensor) -> Tensor:
        if self._uses_cpu_kernel():
            return self._score_on_cpu(state, rows[None])
        return super().score_all(state, rows)

    def _prepare(self, history: Tensor) -> State:
        a, there = self.history_vectors(history)
        if extra := -there.shape[1] % MULTIPLE if _uses_triton(a) else 0:
            a, there = F.pad(a, (0, 0, 0, extra)), F.pad(there, (0, extra))
        pa = F.linear(a, self.unit1.weight[:, : self.config.width])  # [U, K, h]
        return AttentionState(a, there, pa, self._first(a, there))

    def _first(self, a: Tensor, there: Tensor) -> Tensor:
        """M_t a_k [U, F, K] for the window t of k, divided by the real length of the window if pool is "mean"."""
        config = self.config
        weight = self.layers.first.weight[:, : -config.width]
        matrices = weight.reshape(len(weight), -1, config.width).permute(1, 2, 0)  # [T, D, F]
        sizes = [there[0:0, window].shape[1] for window in self._windows()]
        each = [matrix.expand(size, -1, -1) for matrix, size in zip(matrices.unbind(), sizes, strict=True)]
        first = torch.bmm(a.transpose(0, 1), torch.cat(each))  # [K, U, F]: one product per position
        if config.pool == "mean":
            first = first / torch.cat([self._lengths(there[:, window]) for window in self._windows()])
        return first.permute(1, 2, 0)

    def _lengths(self, there: Tensor) -> Tensor:
        """The real length of a window [U, k], repeated for its positions [k, U, 1]."""
        return self._length(there)[:, None].expand(there.shape[1], -1, -1)

    def _windows(self) -> Iterator[slice]:
        *stops, _ = accumulate(self.config.windows)
        yield from map(slice, [0, *stops], [*stops, None])  # padding at the end belongs to the last window

    def _length(self, there: Tensor) -> Tensor:
        """The divisor of a window [U, k], [U]."""
        if self.config.pool == "sum":
            return there.new_ones(len(there), dtype=self.nodes.weight.dtype)
        return there.sum(1).clamp(min=1).to(self.nodes.weight.dtype)

    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        a, there, pa, first = state
        _, wp, wn = torch.split(self.unit1.weight, self.config.width, dim=1)
        pn = F.linear(w, wn, self.unit1.bias)  # [U, C, h]
        unit = self.unit2.weight[0], self.unit2.bias, self.act1.slope, self.act2.slope
        s = self.unit_weights(UnitInputs(a, there, pa, w, pn, wp, *unit))  # [U, C, K]
        layer = self.layers.first
        return self.layers.after(
            s @ first.mT + F.linear(w, layer.weight[:, -self.config.width :], layer.bias)
        )

    def unit_weights(self, unit: UnitInputs) -> Tensor:
        """`plain_weights` in its fastest form for these tensors."""
        if _uses_triton(unit.a):
            return fused_weights(unit)
        return (blocked_weights if _needs_blocks(unit.a) else plain_weights)(unit)

    def _uses_cpu_kernel(self) -> bool:
        """Whether the CPU kernel applies: inference in float32."""
        weight = self.nodes.weight
        return (
            weight.device.type == "cpu"
            and weight.dtype == torch.float32
            and not (self.training or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        )

    def kernel_inputs(self) -> KernelInputs | None:
        """The arrays that the CPU kernel reads, for callers of the kernel; None where it does not apply."""
        if not self._uses_cpu_kernel():
            return None
        views, past = self._current_views(), self.nodes if self.items is None else self.items
        tables = array(self.nodes.weight), array(past.weight)
        return KernelInputs(*tables, views.unit, views.layers, self.spans, self.config.pool == "mean")

    def _prepare_on_cpu(self, history: Tensor) -> State:
        config, views = self.config, self._current_views()
        rows = last(history, config.max_history)
        users, max_history = rows.shape
        a, there = (
            torch.empty(users, max_history, config.width),
            torch.empty(users, max_history, dtype=torch.bool),
        )
        pa, first = (
            torch.empty(users, max_history, config.hidden),
            torch.empty(users, max_history, config.layers[0]),
        )
        past = array((self.nodes if self.items is None else self.items).weight)
        weights = views.unit, views.layers[0].weight, self.spans, config.pool == "mean"
        fill_state(row_array(rows), past, *weights, *(part.numpy() for part in (a, there, pa, first)))
        return AttentionState(a, there, pa, first.mT)

    def _score_on_cpu(self, state: State, rows: Tensor) -> Tensor:
        views = self._current_views()
        scores = torch.empty(len(state[0]), rows.shape[1])
        a, there, pa, first = (array(part.contiguous()) for part in (*state[:3], state[3].mT))
        table = array(self.nodes.weight)
        score_rows(a, there, pa, first, table, row_array(rows), views.unit, views.layers, scores.numpy())
        return scores

    def _current_views(self) -> WeightViews:
        if self._views is None or not self._views.current():
            self._views = weight_views(self.unit1, self.act1, self.unit2, self.act2, self.layers)
        return self._views

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_views": None}  # a copy has its own weights

    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        a, there = self.history_vectors(history)
        w = self.lookup(rows)  # [U, C, D]
        s = self._naive_weights(a, there, w)  # [U, C, K]
        z = torch.einsum("uck,ukd->uckd", s, a)
        pooled = [
            z[:, :, window].sum(2) / self._length(there[:, window])[:, None, None]
            for window in self._windows()
        ]
        return at_least_float32(self.layers(torch.cat([*pooled, w], -1)))

    def _naive_weights(self, a: Tensor, there: Tensor, w: Tensor) -> Tensor:
        shape = (*w.shape[:2], *a.shape[1:])
        a, w = a[:, None].expand(shape), w[:, :, None].expand(shape)  # [U, C, K, D]
        s = self.act2(self.unit2(self.act1(self.unit1(torch.cat([a, a * w, w], -1))))).squeeze(-1)
        return torch.where(there[:, None], s, 0)  # [U, C, K]


def _uses_triton(x: Tensor) -> bool:
    """Whether the GPU kernel applies; it has no float64."""
    return x.is_cuda and HAS_TRITON and x.dtype != torch.float64


def _needs_blocks(x: Tensor) -> bool:
    """Whether gradients are computed block by block; with autocast, tensors differ in dtype."""
    return x.is_cpu and torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def row_array(rows: Tensor) -> Any:
    """Rows as the CPU kernel reads them."""
    return array(rows.to(torch.int64).contiguous())
