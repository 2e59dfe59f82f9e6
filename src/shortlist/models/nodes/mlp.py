"""Layers on [history vector; node vector]: the scorer between a dot product and attention."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.config import ScorerConfig
from shortlist.models.nodes.linear import mean_vector
from shortlist.models.nodes.scorer import NodeScorer, PReLU, State, at_least_float32, without_bias
from shortlist.models.nodes.triton_norm import normed_bent, normed_is_here


class Layers(nn.Module):
    """Linear, norm, dropout (the first only), PReLU for every layer, then one number."""

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
            without_bias(self)

    @property
    def first(self) -> nn.Linear:
        """The layer whose halves the fast forms compute apart."""
        layer = self.linear[0]
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """Inputs [..., I] -> scores [...]."""
        return self.after(self.linear[0](x))

    def after(self, x: Tensor) -> Tensor:
        """What the first linear layer gave [..., F] -> scores [...]."""
        shape = x.shape[:-1]
        x = self._bent(0, x.flatten(0, -2))
        for at, linear in enumerate(self.linear[1:], start=1):
            x = self._bent(at, linear(x))
        return self.out_act(self.out_norm(self.out(x))).view(shape)  # type: ignore[no-any-return]

    def _bent(self, at: int, x: Tensor) -> Tensor:
        """Norm, dropout after the first, PReLU; on a GPU norm and PReLU in one, unless a compiler makes its own."""
        norm, act = self.norm[at], self.act[at]
        dropped = at == 0 and self.dropout.p > 0 and self.training
        if (
            x.is_cuda
            and normed_is_here
            and isinstance(norm, LayerNorm)
            and not dropped
            and x.dtype != torch.float64
            and not torch.compiler.is_compiling()
        ):
            assert isinstance(act, PReLU)
            return normed_bent(x, norm.weight, norm.bias, act.slope, norm.eps)
        x = norm(x)
        return act(self.dropout(x) if at == 0 else x)  # type: ignore[no-any-return]


class LayerNorm(nn.LayerNorm):
    """Sums in float32, numbers in and out as they come: autocast would write all of them in float32."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class MLPState(NamedTuple):
    """The history's half of the first layer."""

    first: Tensor  # [U, F]


class MLPScorer(NodeScorer):
    """score = layers([x; w]), x the mean of the history's vectors, of length 1."""

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__(config)
        self.layers = Layers(config, 2 * config.width)

    def prepare(self, history: Tensor) -> State:
        x = mean_vector(*self.remember(history))  # [U, D]
        return MLPState(F.linear(x, self.layers.first.weight[:, : self.config.width]))

    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        (first,) = state
        layer = self.layers.first
        return self.layers.after(
            first[:, None] + F.linear(w, layer.weight[:, self.config.width :], layer.bias)
        )

    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        w = self.lookup(rows)  # [U, C, D]
        x = mean_vector(*self.remember(history))[:, None].expand_as(w)
        return at_least_float32(self.layers(torch.cat([x, w], -1)))


def _norm(word: str, size: int) -> nn.Module:
    if word == "none":
        return nn.Identity()
    return LayerNorm(size) if word == "layer" else nn.BatchNorm1d(size)
