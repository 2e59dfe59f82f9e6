"""DIN ranker: attention of each candidate on the history (Zhou et al., 2018)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.model import Model, ModelConfig
from shortlist.models.nodes.scorer import PReLU, at_least_float32
from shortlist.settings import check_fields, setting

CPU_CELLS = 1 << 20  # activations of the attention unit's widest layer per block, without gradients
GPU_CELLS = 1 << 28  # the same on a GPU, where only memory limits it
INPUTS = {"din3": 3, "din4": 4}  # input vectors of the attention unit


@dataclass(frozen=True)
class DINRankerConfig(ModelConfig):
    """Sizes; the attention unit reads [a; a * e; e], or [e; a; e - a; e * a] for "din4"."""

    width: int = setting(96, "Width of the item embeddings.", least=1, most=8192)
    attention: tuple[int, ...] = setting(
        (64, 16), "Widths of the attention unit's layers.", least=1, most=65_536
    )
    hidden: tuple[int, ...] = setting((200, 80), "Widths of the hidden layers.", least=1, most=65_536)
    windows: tuple[int, ...] = setting(
        (), "Lengths of history windows, each pooled by itself, oldest first; empty for one.", least=1
    )
    inputs: str = setting("din3", "Inputs of the attention unit.", choices=tuple(INPUTS))

    def __post_init__(self) -> None:
        check_fields(self, "din-ranker")
        if not self.attention:
            raise ConfigError("din-ranker: attention must have at least one layer, got none")
        if self.windows and sum(self.windows) != self.max_history:
            raise ConfigError(
                f"din-ranker: windows must sum to max_history, {self.max_history}, got {sum(self.windows)}"
            )


class DINRanker(Model):
    """score = layers([sum over k of unit(a_k, e) a_k; e]) for history vectors a_k and a candidate e.

    No softmax over the history; padding has weight 0. The unit's first layer is linear in its inputs, so the terms of
    the history alone and of the candidate alone are computed once, and only their product is computed per pair.
    """

    Config = DINRankerConfig
    config: DINRankerConfig

    def __init__(self, config: DINRankerConfig) -> None:
        super().__init__(config)
        width, unit, layers = config.width, config.attention, config.hidden
        self.items = nn.Embedding(config.n_items + 1, width, padding_idx=config.n_items)  # last: padding
        self.first = nn.Linear(INPUTS[config.inputs] * width, unit[0])  # of the unit
        self.unit = _stack((*unit, 1))
        self.unit_activations = nn.ModuleList(PReLU() for _ in unit)
        self.layers = _stack(((max(len(config.windows), 1) + 1) * width, *layers, 1))
        self.activations = nn.ModuleList(PReLU() for _ in layers)
        nn.init.normal_(self.items.weight, std=width**-0.5)
        with torch.no_grad():
            self.items.weight[-1] = 0

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        rows = torch.arange(self.config.n_items, device=history.device).expand(len(history), -1)
        return self.score_rows(history, rows).float()

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        """The scores of each user's own rows [U, C]; a row outside the catalogue has a zero embedding."""
        past = self.read(history)
        if torch.is_grad_enabled():
            return at_least_float32(self._score(past, rows))
        scores = self.items.weight.new_zeros(rows.shape)
        for users, columns in self._blocks(past.shape[1], rows):
            scores[users, columns] = self._score(past[users], rows[users, columns]).to(scores.dtype)
        return at_least_float32(scores)

    def _blocks(self, max_history: int, rows: Tensor) -> Iterator[tuple[slice, slice]]:
        """Blocks of users and candidates, so that memory stays bounded; they depend on shapes alone."""
        cells = GPU_CELLS if rows.is_cuda else CPU_CELLS
        pair = max(max_history, 1) * max(self.config.attention[0], self.config.width)
        columns = max(1, min(rows.shape[1], cells // pair))
        users = max(1, cells // (columns * pair))
        for user in range(0, len(rows), users):
            for column in range(0, rows.shape[1], columns):
                yield slice(user, user + users), slice(column, column + columns)

    def _score(self, past: Tensor, rows: Tensor) -> Tensor:
        valid = past >= 0  # [U, H]
        a, e = self._vectors(past), self._vectors(rows)  # [U, H, D], [U, C, D]
        weights = self._weights(a, e).masked_fill(~valid[:, None], 0)  # [U, C, H]
        x = torch.cat([*self._pooled(weights, a), e], dim=-1)
        for layer, activation in zip(self.layers[:-1], self.activations, strict=True):
            x = activation(layer(x))
        scores: Tensor = self.layers[-1](x).squeeze(-1)
        return scores

    def _vectors(self, rows: Tensor) -> Tensor:
        known = (rows >= 0) & (rows < self.config.n_items)
        vectors: Tensor = self.items(torch.where(known, rows, self.config.n_items))
        return vectors

    def _weights(self, a: Tensor, e: Tensor) -> Tensor:
        """The attention weight of each history item for each candidate [U, C, H]."""
        alone, both, apart = self._parts()  # [h, D] each
        pairs = (a[:, :, None] * both).flatten(1, 2)  # [U, H*h, D]
        x = (e @ pairs.mT).view(*e.shape[:2], a.shape[1], len(both))  # [U, C, H, h]
        x = x + F.linear(a, alone)[:, None] + F.linear(e, apart, self.first.bias)[:, :, None]
        for activation, layer in zip(self.unit_activations, self.unit, strict=True):
            x = layer(activation(x))
        return torch.squeeze(x, -1)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The first layer's weights for the history vector, the product, and the candidate vector."""
        parts = torch.split(self.first.weight, self.config.width, dim=1)
        if self.config.inputs == "din3":
            return parts[0], parts[1], parts[2]
        e, a, apart, both = parts
        return a - apart, both, e + apart

    def _pooled(self, weights: Tensor, a: Tensor) -> list[Tensor]:
        """The weighted sum of the history, one vector per window [U, C, D]."""
        if not self.config.windows:
            return [weights @ a]
        short = self.config.max_history - a.shape[1]
        weights, a = F.pad(weights, (short, 0)), F.pad(a, (0, 0, short, 0))
        *stops, _ = accumulate(self.config.windows)
        windows = map(slice, [0, *stops], [*stops, None])
        return [weights[:, :, window] @ a[:, window] for window in windows]


def _stack(sizes: tuple[int, ...]) -> nn.ModuleList:
    """Linear layers, one from each size to the next."""
    return nn.ModuleList(nn.Linear(width, next_width) for width, next_width in pairwise(sizes))
