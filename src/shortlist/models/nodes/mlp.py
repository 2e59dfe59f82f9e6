"""An MLP on [history vector; node vector], between the dot product and attention."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.config import ScorerConfig
from shortlist.models.nodes.linear import mean_vector
from shortlist.models.nodes.scorer import NodeScorer, PReLU, State, at_least_float32, zero_bias
from shortlist.models.nodes.triton_norm import HAS_TRITON, norm_prelu


class Layers(nn.Module):
    """Linear, norm, dropout (first layer only), PReLU per layer, then one output."""

    def __init__(self, config: ScorerConfig, inputs: int) -> None:
        super().__init__()
        sizes = zip((inputs, *config.layers[:-1]), config.layers, strict=True)
        self.linear = nn.ModuleList(nn.Linear(wide, next_wide) for wide, next_wide in sizes)
        self.norm = nn.ModuleList(_norm(config.norm, size) for size in config.layers)
        self.act = nn.ModuleList(PReLU() for _ in config.layers)
        self.dropout = nn.Dropout(config.dropout)
        plain = config.output == "linear"
        self.out = nn.Linear(config.layers[-1], 1, bias=not plain)
        self.out_norm = nn.Identity() if plain else nn.BatchNorm1d(1)
        self.out_act = nn.Identity() if plain else PReLU()
        if not config.bias:
            zero_bias(self)

    @property
    def first(self) -> nn.Linear:
        """The layer whose history and node parts are computed separately."""
        layer = self.linear[0]
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """Inputs [..., I] -> scores [...]."""
        return self.after(self.linear[0](x))

    def after(self, x: Tensor) -> Tensor:
        """Outputs of the first linear layer [..., F] -> scores [...]."""
        shape = x.shape[:-1]
        x = self._activated(0, x.flatten(0, -2))
        for at, linear in enumerate(self.linear[1:], start=1):
            x = self._activated(at, linear(x))
        return self.out_act(self.out_norm(self.out(x))).view(shape)  # type: ignore[no-any-return]

    def _activated(self, at: int, x: Tensor) -> Tensor:
        """Norm, dropout after the first layer, PReLU; norm and PReLU fused on a GPU, unless torch.compile does it."""
        norm, act = self.norm[at], self.act[at]
        dropped = at == 0 and self.dropout.p > 0 and self.training
        if (
            x.is_cuda
            and HAS_TRITON
            and isinstance(norm, LayerNorm)
            and not dropped
            and x.dtype != torch.float64
            and not torch.compiler.is_compiling()
        ):
            assert isinstance(act, PReLU)
            return norm_prelu(x, norm.weight, norm.bias, act.slope, norm.eps)
        x = norm(x)
        return act(self.dropout(x) if at == 0 else x)  # type: ignore[no-any-return]


class LayerNorm(nn.LayerNorm):
    """Sums in float32, inputs and outputs in the given dtype: autocast would write float32."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class MLPState(NamedTuple):
    """The history's part of the first layer."""

    first: Tensor  # [U, F]


class MLPScorer(NodeScorer):
    """score = layers([x; w]), x the normalized mean of the history vectors."""

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__(config)
        self.layers = Layers(config, 2 * config.width)

    def prepare(self, history: Tensor) -> State:
        x = mean_vector(*self.history_vectors(history))  # [U, D]
        return MLPState(F.linear(x, self.layers.first.weight[:, : self.config.width]))

    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        (first,) = state
        layer = self.layers.first
        return self.layers.after(
            first[:, None] + F.linear(w, layer.weight[:, self.config.width :], layer.bias)
        )

    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        w = self.lookup(rows)  # [U, C, D]
        x = mean_vector(*self.history_vectors(history))[:, None].expand_as(w)
        return at_least_float32(self.layers(torch.cat([x, w], -1)))


def _norm(name: str, size: int) -> nn.Module:
    if name == "none":
        return nn.Identity()
    return LayerNorm(size) if name == "layer" else nn.BatchNorm1d(size)
